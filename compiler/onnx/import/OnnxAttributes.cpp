// The attributes that ONNX's ops have.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxAttributes.h"

#include <map>
#include <sstream>

namespace opc::onnx {
namespace {

/// An op and its attributes in all versions, one op a line: the names of ONNX's public specification.
constexpr const char *kTable = R"(
Abs consumed_inputs
Acos
Acosh
Add axis broadcast consumed_inputs
AffineGrid align_corners
And axis broadcast
ArgMax axis keepdims select_last_index
ArgMin axis keepdims select_last_index
Asin
Asinh
Atan
Atanh
Attention is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision
AveragePool auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides
BatchNormalization consumed_inputs epsilon is_test momentum spatial training_mode
Bernoulli dtype seed
BitShift direction
BitwiseAnd
BlackmanWindow output_datatype periodic
Cast round_mode saturate to
CastLike round_mode saturate
Ceil consumed_inputs
Celu alpha
CenterCropPad axes
Clip consumed_inputs max min
Col2Im dilations pads strides
Compress axis
Concat axis
ConcatFromSequence axis new_axis
Constant sparse_value value value_float value_floats value_int value_ints value_string value_strings
ConstantOfShape value
Conv auto_pad dilations group kernel_shape pads strides
ConvInteger auto_pad dilations group kernel_shape pads strides
ConvTranspose auto_pad dilations group kernel_shape output_padding output_shape pads strides
Cos
Cosh
CumProd exclusive reverse
CumSum exclusive reverse
DFT axis inverse onesided
DepthToSpace blocksize mode
DequantizeLinear axis block_size output_dtype
Det
Div axis broadcast consumed_inputs
Dropout consumed_inputs is_test ratio seed
DynamicQuantizeLinear
Einsum equation
Elu alpha consumed_inputs
Equal axis broadcast
Erf
Exp consumed_inputs
Expand
EyeLike dtype k
Flatten axis
Floor consumed_inputs
GRU activation_alpha activation_beta activations clip direction hidden_size layout linear_before_reset output_sequence
Gather axis
GatherElements axis
GatherND batch_dims
Gelu approximate
Gemm alpha beta broadcast transA transB
GlobalAveragePool
GlobalLpPool p
GlobalMaxPool
Greater axis broadcast
GreaterOrEqual
GridSample align_corners mode padding_mode
GroupNormalization epsilon num_groups stash_type
HammingWindow output_datatype periodic
HannWindow output_datatype periodic
HardSigmoid alpha beta consumed_inputs
HardSwish
Hardmax axis
Identity
If else_branch then_branch
InstanceNormalization consumed_inputs epsilon
IsInf detect_negative detect_positive
IsNaN
LRN alpha beta bias size
LSTM activation_alpha activation_beta activations clip direction hidden_size input_forget layout output_sequence
LayerNormalization axis epsilon stash_type
LeakyRelu alpha consumed_inputs
Less axis broadcast
LessOrEqual
Log consumed_inputs
LogSoftmax axis
Loop body
LpNormalization axis p
LpPool auto_pad ceil_mode dilations kernel_shape p pads strides
MatMul
MatMulInteger
Max consumed_inputs
MaxPool auto_pad ceil_mode dilations kernel_shape pads storage_order strides
MaxRoiPool pooled_shape spatial_scale
MaxUnpool kernel_shape pads strides
Mean consumed_inputs
MeanVarianceNormalization axes
MelWeightMatrix output_datatype
Min consumed_inputs
Mish
Mod fmod
Mul axis broadcast consumed_inputs
Multinomial dtype sample_size seed
Neg consumed_inputs
NegativeLogLikelihoodLoss ignore_index reduction
NonMaxSuppression center_point_box
NonZero
Not
OneHot axis
Optional type
OptionalGetElement
OptionalHasElement
Or axis broadcast
PRelu consumed_inputs
Pad mode paddings pads value
Pow axis broadcast
QLinearConv auto_pad dilations group kernel_shape pads strides
QLinearMatMul
QuantizeLinear axis block_size output_dtype precision saturate
RMSNormalization axis epsilon stash_type
RNN activation_alpha activation_beta activations clip direction hidden_size layout output_sequence
RandomNormal dtype mean scale seed shape
RandomNormalLike dtype mean scale seed
RandomUniform dtype high low seed shape
RandomUniformLike dtype high low seed
Range
Reciprocal consumed_inputs
ReduceL1 axes keepdims noop_with_empty_axes
ReduceL2 axes keepdims noop_with_empty_axes
ReduceLogSum axes keepdims noop_with_empty_axes
ReduceLogSumExp axes keepdims noop_with_empty_axes
ReduceMax axes keepdims noop_with_empty_axes
ReduceMean axes keepdims noop_with_empty_axes
ReduceMin axes keepdims noop_with_empty_axes
ReduceProd axes keepdims noop_with_empty_axes
ReduceSum axes keepdims noop_with_empty_axes
ReduceSumSquare axes keepdims noop_with_empty_axes
Relu consumed_inputs
Reshape allowzero consumed_inputs shape
Resize antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value keep_aspect_ratio_policy mode nearest_mode
ReverseSequence batch_axis time_axis
RoiAlign coordinate_transformation_mode mode output_height output_width sampling_ratio spatial_scale
RotaryEmbedding interleaved num_heads rotary_embedding_dim
Round
STFT onesided
Scan body directions num_scan_inputs scan_input_axes scan_input_directions scan_output_axes scan_output_directions
Scatter axis
ScatterElements axis reduction
ScatterND reduction
Selu alpha consumed_inputs gamma
SequenceAt
SequenceConstruct
SequenceEmpty dtype
SequenceErase
SequenceInsert
SequenceLength
SequenceMap body
Shape end start
Shrink bias lambd
Sigmoid consumed_inputs
Sign
Sin
Sinh
Size
Slice axes ends starts
Softmax axis
SoftmaxCrossEntropyLoss ignore_index reduction
Softplus
Softsign
SpaceToDepth blocksize
Split axis num_outputs split
SplitToSequence axis keepdims
Sqrt consumed_inputs
Squeeze axes
StringNormalizer case_change_action is_case_sensitive locale stopwords
Sub axis broadcast consumed_inputs
Sum consumed_inputs
Swish alpha
Tan
Tanh consumed_inputs
TfIdfVectorizer max_gram_length max_skip_count min_gram_length mode ngram_counts ngram_indexes pool_int64s pool_strings weights
ThresholdedRelu alpha
Tile
TopK axis k largest sorted
Transpose perm
Trilu upper
Unique axis sorted
Unsqueeze axes
Upsample height_scale mode scales width_scale
Where
Xor axis broadcast
)";

std::map<std::string, std::vector<std::string>> readTable() {
  std::map<std::string, std::vector<std::string>> table;
  std::istringstream lines(kTable);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string op;
    if (!(words >> op)) continue;
    for (std::string name; words >> name;) table[op].push_back(name);
    table[op];
  }
  return table;
}

} // namespace

const std::vector<std::string> *attributesOf(const std::string &op) {
  static const auto kOps = readTable();
  const auto found = kOps.find(op);
  return found == kOps.end() ? nullptr : &found->second;
}

} // namespace opc::onnx
