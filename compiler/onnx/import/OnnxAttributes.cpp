// The inputs and attributes that ONNX's ops have.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxAttributes.h"

#include <cstdlib>
#include <map>
#include <sstream>

namespace opc::onnx {
namespace {

/// An op, the most inputs that it has (*: any number) and its attributes in all versions, one op a line: the names of
/// the public specifications of ONNX and of ONNX Runtime's domain. Behind = are the values that an attribute can have.
constexpr const char *kTable = R"(
Abs 1 consumed_inputs
Acos 1
Acosh 1
Add 2 axis broadcast=0|1 consumed_inputs
AffineGrid 2 align_corners=0|1
And 2 axis broadcast=0|1
ArgMax 1 axis keepdims=0|1 select_last_index=0|1
ArgMin 1 axis keepdims=0|1 select_last_index=0|1
Asin 1
Asinh 1
Atan 1
Atanh 1
Attention 7 is_causal=0|1 kv_num_heads left_window_size q_num_heads qk_matmul_output_mode=0|1|2|3 right_window_size scale softcap softmax_precision=1|10|11|16
AveragePool 1 auto_pad=|NOTSET|SAME_UPPER|SAME_LOWER|VALID ceil_mode=0|1 count_include_pad=0|1 dilations kernel_shape pads strides
BatchNormalization 5 consumed_inputs epsilon is_test=0|1 momentum spatial=0|1 training_mode=0|1
Bernoulli 1 dtype seed
BitCast 1 to
BitShift 2 direction=LEFT|RIGHT
BitwiseAnd 2
BitwiseNot 1
BitwiseOr 2
BitwiseXor 2
BlackmanWindow 1 output_datatype periodic=0|1
Cast 1 round_mode=up|down|nearest saturate=0|1 to
CastLike 2 round_mode=up|down|nearest saturate=0|1
CausalConvWithState 4 activation=none|silu|swish
Ceil 1 consumed_inputs
Celu 1 alpha
CenterCropPad 2 axes
Clip 3 consumed_inputs max min
Col2Im 3 dilations pads strides
Compress 2 axis
Concat * axis
ConcatFromSequence 1 axis new_axis=0|1
Constant 0 sparse_value value value_float value_floats value_int value_ints value_string value_strings
ConstantOfShape 1 value
Conv 3 auto_pad=|NOTSET|SAME_UPPER|SAME_LOWER|VALID dilations group kernel_shape pads strides
ConvInteger 4 auto_pad=|NOTSET|SAME_UPPER|SAME_LOWER|VALID dilations group kernel_shape pads strides
ConvTranspose 3 auto_pad=|NOTSET|SAME_UPPER|SAME_LOWER|VALID dilations group kernel_shape output_padding output_shape pads strides
Cos 1
Cosh 1
CumProd 2 exclusive=0|1 reverse=0|1
CumSum 2 exclusive=0|1 reverse=0|1
DFT 3 axis inverse=0|1 onesided=0|1
DeformConv 5 dilations group kernel_shape offset_group pads strides
DepthToSpace 1 blocksize mode=DCR|CRD
DequantizeLinear 3 axis block_size output_dtype
Det 1
Div 2 axis broadcast=0|1 consumed_inputs
Dropout 3 consumed_inputs is_test=0|1 ratio seed
DynamicQuantizeLinear 1
Einsum * equation
Elu 1 alpha consumed_inputs
Equal 2 axis broadcast=0|1
Erf 1
Exp 1 consumed_inputs
Expand 2
EyeLike 1 dtype k
Flatten 1 axis
Floor 1 consumed_inputs
GRU 6 activation_alpha activation_beta activations clip direction=forward|reverse|bidirectional hidden_size layout=0|1 linear_before_reset=0|1 output_sequence
Gather 2 axis
GatherElements 2 axis
GatherND 2 batch_dims
Gelu 1 approximate=none|tanh
Gemm 3 alpha beta broadcast=0|1 transA=0|1 transB=0|1
GlobalAveragePool 1
GlobalLpPool 1 p
GlobalMaxPool 1
Greater 2 axis broadcast=0|1
GreaterOrEqual 2
GridSample 2 align_corners=0|1 mode=bilinear|nearest|bicubic|linear|cubic padding_mode=zeros|border|reflection
GroupNormalization 3 epsilon num_groups stash_type=1|10|11|16
HammingWindow 1 output_datatype periodic=0|1
HannWindow 1 output_datatype periodic=0|1
HardSigmoid 1 alpha beta consumed_inputs
HardSwish 1
Hardmax 1 axis
Identity 1
If 1 else_branch then_branch
InstanceNormalization 3 consumed_inputs epsilon
IsInf 1 detect_negative=0|1 detect_positive=0|1
IsNaN 1
LRN 1 alpha beta bias size
LSTM 8 activation_alpha activation_beta activations clip direction=forward|reverse|bidirectional hidden_size input_forget=0|1 layout=0|1 output_sequence
LayerNormalization 3 axis epsilon stash_type=1|10|11|16
LeakyRelu 1 alpha consumed_inputs
Less 2 axis broadcast=0|1
LessOrEqual 2
LinearAttention 6 chunk_size kv_num_heads q_num_heads scale update_rule=linear|gated|delta|gated_delta
Log 1 consumed_inputs
LogSoftmax 1 axis
Loop * body
LpNormalization 1 axis p=1|2
LpPool 1 auto_pad=|NOTSET|SAME_UPPER|SAME_LOWER|VALID ceil_mode=0|1 dilations kernel_shape p pads strides
MatMul 2
MatMulInteger 4
Max * consumed_inputs
MaxPool 1 auto_pad=|NOTSET|SAME_UPPER|SAME_LOWER|VALID ceil_mode=0|1 dilations kernel_shape pads storage_order=0|1 strides
MaxRoiPool 2 pooled_shape spatial_scale
MaxUnpool 3 kernel_shape pads strides
Mean * consumed_inputs
MeanVarianceNormalization 1 axes
MelWeightMatrix 5 output_datatype
Min * consumed_inputs
Mish 1
Mod 2 fmod=0|1
Mul 2 axis broadcast=0|1 consumed_inputs
Multinomial 1 dtype sample_size seed
Neg 1 consumed_inputs
NegativeLogLikelihoodLoss 3 ignore_index reduction=none|mean|sum
NonMaxSuppression 5 center_point_box=0|1
NonZero 1
Not 1
OneHot 3 axis
Optional 1 type
OptionalGetElement 1
OptionalHasElement 1
Or 2 axis broadcast=0|1
PRelu 2 consumed_inputs
Pad 4 mode=constant|reflect|edge|wrap paddings pads value
Pow 2 axis broadcast=0|1
QLinearConv 9 auto_pad=|NOTSET|SAME_UPPER|SAME_LOWER|VALID dilations group kernel_shape pads strides
QLinearMatMul 8
QuantizeLinear 3 axis block_size output_dtype precision saturate=0|1
RMSNormalization 2 axis epsilon stash_type=1|10|11|16
RNN 6 activation_alpha activation_beta activations clip direction=forward|reverse|bidirectional hidden_size layout=0|1 output_sequence
RandomNormal 0 dtype mean scale seed shape
RandomNormalLike 1 dtype mean scale seed
RandomUniform 0 dtype high low seed shape
RandomUniformLike 1 dtype high low seed
Range 3
Reciprocal 1 consumed_inputs
ReduceL1 2 axes keepdims=0|1 noop_with_empty_axes=0|1
ReduceL2 2 axes keepdims=0|1 noop_with_empty_axes=0|1
ReduceLogSum 2 axes keepdims=0|1 noop_with_empty_axes=0|1
ReduceLogSumExp 2 axes keepdims=0|1 noop_with_empty_axes=0|1
ReduceMax 2 axes keepdims=0|1 noop_with_empty_axes=0|1
ReduceMean 2 axes keepdims=0|1 noop_with_empty_axes=0|1
ReduceMin 2 axes keepdims=0|1 noop_with_empty_axes=0|1
ReduceProd 2 axes keepdims=0|1 noop_with_empty_axes=0|1
ReduceSum 2 axes keepdims=0|1 noop_with_empty_axes=0|1
ReduceSumSquare 2 axes keepdims=0|1 noop_with_empty_axes=0|1
Relu 1 consumed_inputs
Reshape 2 allowzero=0|1 consumed_inputs shape
Resize 4 antialias=0|1 axes coordinate_transformation_mode=half_pixel|half_pixel_symmetric|pytorch_half_pixel|align_corners|asymmetric|tf_half_pixel_for_nn|tf_crop_and_resize cubic_coeff_a exclude_outside=0|1 extrapolation_value keep_aspect_ratio_policy=stretch|not_larger|not_smaller mode=nearest|linear|cubic nearest_mode=round_prefer_floor|round_prefer_ceil|floor|ceil
ReverseSequence 2 batch_axis=0|1 time_axis=0|1
RoiAlign 3 coordinate_transformation_mode=half_pixel|output_half_pixel mode=avg|max output_height output_width sampling_ratio spatial_scale
RotaryEmbedding 4 interleaved=0|1 num_heads rotary_embedding_dim
Round 1
STFT 4 onesided=0|1
Scan * body directions=0|1 num_scan_inputs scan_input_axes scan_input_directions=0|1 scan_output_axes scan_output_directions=0|1
Scatter 3 axis
ScatterElements 3 axis reduction=none|add|mul|max|min
ScatterND 3 reduction=none|add|mul|max|min
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
SimplifiedLayerNormalization 2 axis epsilon stash_type=1|10|11|16
Sin 1
Sinh 1
Size 1
Slice 5 axes ends starts
Softmax 1 axis
SoftmaxCrossEntropyLoss 3 ignore_index reduction=none|mean|sum
Softplus 1
Softsign 1
SpaceToDepth 1 blocksize
Split 2 axis num_outputs split
SplitToSequence 2 axis keepdims=0|1
Sqrt 1 consumed_inputs
Squeeze 2 axes
StringNormalizer 1 case_change_action is_case_sensitive=0|1 locale stopwords
Sub 2 axis broadcast=0|1 consumed_inputs
Sum * consumed_inputs
SwiGLU 2 alpha
Swish 1 alpha
Tan 1
Tanh 1 consumed_inputs
TensorScatter 3 axis mode=linear|circular
TfIdfVectorizer 1 max_gram_length max_skip_count min_gram_length mode=TF|IDF|TFIDF ngram_counts ngram_indexes pool_int64s pool_strings weights
ThresholdedRelu 1 alpha
Tile 3
TopK 2 axis k largest=0|1 sorted=0|1
Transpose 1 perm
Trilu 2 upper=0|1
Unique 1 axis sorted=0|1
Unsqueeze 2 axes
Upsample 2 height_scale mode=nearest|linear|bilinear scales width_scale
Where 3
Xor 2 axis broadcast=0|1
com.microsoft.Attention 7 do_rotary=0|1 mask_filter_value num_heads past_present_share_buffer=0|1 qkv_hidden_sizes rotary_embedding_dim scale unidirectional=0|1
com.microsoft.BiasGelu 2
com.microsoft.DequantizeLinear 3 axis block_size
com.microsoft.DynamicQuantizeMatMul 5
com.microsoft.EmbedLayerNormalization 9 epsilon mask_index_type=0|1
com.microsoft.FastGelu 2
com.microsoft.FusedConv 4 activation activation_params auto_pad=|NOTSET|SAME_UPPER|SAME_LOWER|VALID dilations group kernel_shape pads strides
com.microsoft.FusedGemm 3 activation activation_alpha activation_beta activation_gamma alpha beta transA=0|1 transB=0|1
com.microsoft.FusedMatMul 2 alpha transA=0|1 transB=0|1 transBatchA=0|1 transBatchB=0|1
com.microsoft.Gelu 1
com.microsoft.GroupQueryAttention 16 causal=0|1 do_rotary=0|1 k_quant_type kv_cache_bit_width kv_num_heads local_window_size num_heads qk_norm_epsilon qk_output rotary_interleaved=0|1 scale sliding_window_cache=0|1 smooth_softmax=0|1 softcap v_quant_type
com.microsoft.MatMulIntegerToFloat 7
com.microsoft.MatMulNBits 6 K N accuracy_level bits block_size weight_prepacked
com.microsoft.MultiHeadAttention 10 mask_filter_value num_heads scale unidirectional=0|1
com.microsoft.QGemm 9 alpha transA=0|1 transB=0|1
com.microsoft.QLinearAdd 8
com.microsoft.QLinearConcat * axis
com.microsoft.QLinearGlobalAveragePool 5 channels_last=0|1
com.microsoft.QLinearLeakyRelu 5 alpha
com.microsoft.QLinearMul 8
com.microsoft.QLinearSigmoid 5
com.microsoft.QuantizeLinear 3 axis block_size
com.microsoft.QuickGelu 1 alpha
com.microsoft.RotaryEmbedding 4 interleaved=0|1 is_packed_batching=0|1 num_heads rotary_embedding_dim scale
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
    for (std::string name; words >> name;) {
      const size_t equal = name.find('=');
      form.attributes.push_back(name.substr(0, equal));
      if (equal == std::string::npos) continue;
      std::istringstream values(name.substr(equal + 1));
      for (std::string value; std::getline(values, value, '|');) form.values[form.attributes.back()].push_back(value);
    }
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
