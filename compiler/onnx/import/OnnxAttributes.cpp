// The inputs and attributes that ONNX's ops have.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxAttributes.h"

#include <cstdlib>
#include <map>
#include <sstream>

namespace opc::onnx {
namespace {

/// An op, the most inputs that it has (*: any number) and its attributes in all versions, one op a line: the names of
/// the public specifications of ONNX and of ONNX Runtime's domain.
constexpr const char *kTable = R"(
Abs 1 consumed_inputs
Acos 1
Acosh 1
Add 2 axis broadcast consumed_inputs
AffineGrid 2 align_corners
And 2 axis broadcast
ArgMax 1 axis keepdims select_last_index
ArgMin 1 axis keepdims select_last_index
Asin 1
Asinh 1
Atan 1
Atanh 1
Attention 7 is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision
AveragePool 1 auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides
BatchNormalization 5 consumed_inputs epsilon is_test momentum spatial training_mode
Bernoulli 1 dtype seed
BitCast 1 to
BitShift 2 direction
BitwiseAnd 2
BitwiseNot 1
BitwiseOr 2
BitwiseXor 2
BlackmanWindow 1 output_datatype periodic
Cast 1 round_mode saturate to
CastLike 2 round_mode saturate
Ceil 1 consumed_inputs
Celu 1 alpha
CenterCropPad 2 axes
Clip 3 consumed_inputs max min
Col2Im 3 dilations pads strides
Compress 2 axis
Concat * axis
ConcatFromSequence 1 axis new_axis
Constant 0 sparse_value value value_float value_floats value_int value_ints value_string value_strings
ConstantOfShape 1 value
Conv 3 auto_pad dilations group kernel_shape pads strides
ConvInteger 4 auto_pad dilations group kernel_shape pads strides
ConvTranspose 3 auto_pad dilations group kernel_shape output_padding output_shape pads strides
Cos 1
Cosh 1
CumProd 2 exclusive reverse
CumSum 2 exclusive reverse
DFT 3 axis inverse onesided
DepthToSpace 1 blocksize mode
DequantizeLinear 3 axis block_size output_dtype
Det 1
Div 2 axis broadcast consumed_inputs
Dropout 3 consumed_inputs is_test ratio seed
DynamicQuantizeLinear 1
Einsum * equation
Elu 1 alpha consumed_inputs
Equal 2 axis broadcast
Erf 1
Exp 1 consumed_inputs
Expand 2
EyeLike 1 dtype k
Flatten 1 axis
Floor 1 consumed_inputs
GRU 6 activation_alpha activation_beta activations clip direction hidden_size layout linear_before_reset output_sequence
Gather 2 axis
GatherElements 2 axis
GatherND 2 batch_dims
Gelu 1 approximate
Gemm 3 alpha beta broadcast transA transB
GlobalAveragePool 1
GlobalLpPool 1 p
GlobalMaxPool 1
Greater 2 axis broadcast
GreaterOrEqual 2
GridSample 2 align_corners mode padding_mode
GroupNormalization 3 epsilon num_groups stash_type
HammingWindow 1 output_datatype periodic
HannWindow 1 output_datatype periodic
HardSigmoid 1 alpha beta consumed_inputs
HardSwish 1
Hardmax 1 axis
Identity 1
If 1 else_branch then_branch
InstanceNormalization 3 consumed_inputs epsilon
IsInf 1 detect_negative detect_positive
IsNaN 1
LRN 1 alpha beta bias size
LSTM 8 activation_alpha activation_beta activations clip direction hidden_size input_forget layout output_sequence
LayerNormalization 3 axis epsilon stash_type
LeakyRelu 1 alpha consumed_inputs
Less 2 axis broadcast
LessOrEqual 2
Log 1 consumed_inputs
LogSoftmax 1 axis
Loop * body
LpNormalization 1 axis p
LpPool 1 auto_pad ceil_mode dilations kernel_shape p pads strides
MatMul 2
MatMulInteger 4
Max * consumed_inputs
MaxPool 1 auto_pad ceil_mode dilations kernel_shape pads storage_order strides
MaxRoiPool 2 pooled_shape spatial_scale
MaxUnpool 3 kernel_shape pads strides
Mean * consumed_inputs
MeanVarianceNormalization 1 axes
MelWeightMatrix 5 output_datatype
Min * consumed_inputs
Mish 1
Mod 2 fmod
Mul 2 axis broadcast consumed_inputs
Multinomial 1 dtype sample_size seed
Neg 1 consumed_inputs
NegativeLogLikelihoodLoss 3 ignore_index reduction
NonMaxSuppression 5 center_point_box
NonZero 1
Not 1
OneHot 3 axis
Optional 1 type
OptionalGetElement 1
OptionalHasElement 1
Or 2 axis broadcast
PRelu 2 consumed_inputs
Pad 4 mode paddings pads value
Pow 2 axis broadcast
QLinearConv 9 auto_pad dilations group kernel_shape pads strides
QLinearMatMul 8
QuantizeLinear 3 axis block_size output_dtype precision saturate
RMSNormalization 2 axis epsilon stash_type
RNN 6 activation_alpha activation_beta activations clip direction hidden_size layout output_sequence
RandomNormal 0 dtype mean scale seed shape
RandomNormalLike 1 dtype mean scale seed
RandomUniform 0 dtype high low seed shape
RandomUniformLike 1 dtype high low seed
Range 3
Reciprocal 1 consumed_inputs
ReduceL1 2 axes keepdims noop_with_empty_axes
ReduceL2 2 axes keepdims noop_with_empty_axes
ReduceLogSum 2 axes keepdims noop_with_empty_axes
ReduceLogSumExp 2 axes keepdims noop_with_empty_axes
ReduceMax 2 axes keepdims noop_with_empty_axes
ReduceMean 2 axes keepdims noop_with_empty_axes
ReduceMin 2 axes keepdims noop_with_empty_axes
ReduceProd 2 axes keepdims noop_with_empty_axes
ReduceSum 2 axes keepdims noop_with_empty_axes
ReduceSumSquare 2 axes keepdims noop_with_empty_axes
Relu 1 consumed_inputs
Reshape 2 allowzero consumed_inputs shape
Resize 4 antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value keep_aspect_ratio_policy mode nearest_mode
ReverseSequence 2 batch_axis time_axis
RoiAlign 3 coordinate_transformation_mode mode output_height output_width sampling_ratio spatial_scale
RotaryEmbedding 4 interleaved num_heads rotary_embedding_dim
Round 1
STFT 4 onesided
Scan * body directions num_scan_inputs scan_input_axes scan_input_directions scan_output_axes scan_output_directions
Scatter 3 axis
ScatterElements 3 axis reduction
ScatterND 3 reduction
Selu 1 alpha consumed_inputs gamma
SequenceAt 2
SequenceConstruct *
SequenceEmpty 0 dtype
SequenceErase 2
SequenceInsert 3
SequenceLength 1
SequenceMap * body
Shape 1 end start
Shrink 1 bias lambd
Sigmoid 1 consumed_inputs
Sign 1
SimplifiedLayerNormalization 2 axis epsilon stash_type
Sin 1
Sinh 1
Size 1
Slice 5 axes ends starts
Softmax 1 axis
SoftmaxCrossEntropyLoss 3 ignore_index reduction
Softplus 1
Softsign 1
SpaceToDepth 1 blocksize
Split 2 axis num_outputs split
SplitToSequence 2 axis keepdims
Sqrt 1 consumed_inputs
Squeeze 2 axes
StringNormalizer 1 case_change_action is_case_sensitive locale stopwords
Sub 2 axis broadcast consumed_inputs
Sum * consumed_inputs
Swish 1 alpha
Tan 1
Tanh 1 consumed_inputs
TfIdfVectorizer 1 max_gram_length max_skip_count min_gram_length mode ngram_counts ngram_indexes pool_int64s pool_strings weights
ThresholdedRelu 1 alpha
Tile 3
TopK 2 axis k largest sorted
Transpose 1 perm
Trilu 2 upper
Unique 1 axis sorted
Unsqueeze 2 axes
Upsample 2 height_scale mode scales width_scale
Where 3
Xor 2 axis broadcast
com.microsoft.Attention 7 do_rotary mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes rotary_embedding_dim scale unidirectional
com.microsoft.BiasGelu 2
com.microsoft.DequantizeLinear 3 axis block_size
com.microsoft.DynamicQuantizeMatMul 5
com.microsoft.FastGelu 2
com.microsoft.FusedConv 4 activation activation_params auto_pad dilations group kernel_shape pads strides
com.microsoft.FusedGemm 3 activation activation_alpha activation_beta activation_gamma alpha beta transA transB
com.microsoft.FusedMatMul 2 alpha transA transB transBatchA transBatchB
com.microsoft.Gelu 1
com.microsoft.GroupQueryAttention 16 causal do_rotary k_quant_type kv_cache_bit_width kv_num_heads local_window_size num_heads qk_norm_epsilon qk_output rotary_interleaved scale sliding_window_cache smooth_softmax softcap v_quant_type
com.microsoft.MatMulIntegerToFloat 7
com.microsoft.MatMulNBits 6 K N accuracy_level bits block_size weight_prepacked
com.microsoft.MultiHeadAttention 10 mask_filter_value num_heads scale unidirectional
com.microsoft.QGemm 9 alpha transA transB
com.microsoft.QLinearAdd 8
com.microsoft.QLinearConcat * axis
com.microsoft.QLinearGlobalAveragePool 5 channels_last
com.microsoft.QLinearLeakyRelu 5 alpha
com.microsoft.QLinearMul 8
com.microsoft.QLinearSigmoid 5
com.microsoft.QuantizeLinear 3 axis block_size
com.microsoft.QuickGelu 1 alpha
com.microsoft.RotaryEmbedding 4 interleaved is_packed_batching num_heads rotary_embedding_dim scale
com.microsoft.SkipLayerNormalization 5 epsilon
com.microsoft.SkipSimplifiedLayerNormalization 4 epsilon
)";

std::map<std::string, OpForm> readTable() {
  std::map<std::string, OpForm> table;
  std::istringstream lines(kTable);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string op, inputs;
    if (!(words >> op >> inputs)) continue;
    OpForm &form = table[op];
    if (inputs != "*") form.mostInputs = static_cast<size_t>(std::strtoul(inputs.c_str(), nullptr, 10));
    for (std::string name; words >> name;) form.attributes.push_back(name);
  }
  return table;
}

} // namespace

const OpForm *formOf(const std::string &domain, const std::string &op) {
  static const auto kOps = readTable();
  const auto found = kOps.find(domain.empty() ? op : domain + "." + op);
  return found == kOps.end() ? nullptr : &found->second;
}

} // namespace opc::onnx
