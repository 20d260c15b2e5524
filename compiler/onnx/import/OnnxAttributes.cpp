// The inputs, outputs, versions and attributes that ONNX's ops have.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxAttributes.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

namespace opc::onnx {
namespace {

/// An op, the most inputs and outputs that it has (*: any number; 1;13:2 is 1, and from operator set 13 on 2), the
/// operator sets in which it has come and changed, and its attributes in all of them, one op a line: the names of the
/// public specifications of ONNX and of ONNX Runtime's domain. Behind : are the first and the last set that have an
/// attribute (left out: all, or those of what says nothing of the result, which old exporters write in new sets, too),
/// behind = the values that it can have. LayerNormalization, ThresholdedRelu, Upsample and MeanVarianceNormalization
/// were there before ONNX had them in a set: of ONNX Runtime and as experiments.
constexpr const char *kTable = R"(
Abs 1 1 1,6,13 consumed_inputs
Acos 1 1 7,22
Acosh 1 1 9,22
Add 2 1 1,6,7,13,14 axis:1-6 broadcast:1-6=0|1 consumed_inputs
AffineGrid 2 1 20 align_corners=0|1
And 2 1 1,7 axis:1-6 broadcast:1-6=0|1
ArgMax 1 1 1,11,12,13 axis keepdims=0|1 select_last_index:12-=0|1
ArgMin 1 1 1,11,12,13 axis keepdims=0|1 select_last_index:12-=0|1
Asin 1 1 7,22
Asinh 1 1 9,22
Atan 1 1 7,22
Atanh 1 1 9,22
Attention 7 4 23,24,25 is_causal=0|1 kv_num_heads left_window_size q_num_heads qk_matmul_output_mode=0|1|2|3 right_window_size scale softcap softmax_precision=1|10|11|16
AveragePool 1 1 1,7,10,11,19,22 auto_pad=|NOTSET|SAME_UPPER|SAME_LOWER|VALID ceil_mode:10-=0|1 count_include_pad:7-=0|1 dilations:19- kernel_shape pads strides
BatchNormalization 5 5;14:3 1,6,7,9,14,15 consumed_inputs epsilon is_test:1-6=0|1 momentum spatial:1-8=0|1 training_mode:14-=0|1
Bernoulli 1 1 15,22 dtype seed
BitCast 1 1 26 to
BitShift 2 1 11 direction=LEFT|RIGHT
BitwiseAnd 2 1 18
BitwiseNot 1 1 18
BitwiseOr 2 1 18
BitwiseXor 2 1 18
BlackmanWindow 1 1 17 output_datatype periodic=0|1
Cast 1 1 1,6,9,13,19,21,23,24,25 round_mode:24-=up|down|nearest saturate:19-=0|1 to
CastLike 2 1 15,19,21,23,24,25 round_mode:24-=up|down|nearest saturate:19-=0|1
CausalConvWithState 4 2 27 activation=none|silu|swish
Ceil 1 1 1,6,13 consumed_inputs
Celu 1 1 12,28 alpha
CenterCropPad 2 1 18 axes
Clip 1;11:3 1 1,6,11,12,13 consumed_inputs max:1-10 min:1-10
Col2Im 3 1 18 dilations pads strides
Compress 2 1 9,11 axis
Concat * 1 1,4,11,13 axis
ConcatFromSequence 1 1 11 axis new_axis=0|1
Constant 0 1 1,9,11,12,13,19,21,23,24,25 sparse_value:11- value value_float:12- value_floats:12- value_int:12- value_ints:12- value_string:12- value_strings:12-
ConstantOfShape 1 1 9,20,21,23,24,25 value
Conv 3 1 1,11,22 auto_pad=|NOTSET|SAME_UPPER|SAME_LOWER|VALID dilations group kernel_shape pads strides
ConvInteger 4 1 10 auto_pad=|NOTSET|SAME_UPPER|SAME_LOWER|VALID dilations group kernel_shape pads strides
ConvTranspose 3 1 1,11,22 auto_pad=|NOTSET|SAME_UPPER|SAME_LOWER|VALID dilations group kernel_shape output_padding output_shape pads strides
Cos 1 1 7,22
Cosh 1 1 9,22
CumProd 2 1 26 exclusive=0|1 reverse=0|1
CumSum 2 1 11,14 exclusive=0|1 reverse=0|1
DFT 2;20:3 1 17,20 axis:17-19 inverse=0|1 onesided=0|1
DeformConv 5 1 19,22 dilations group kernel_shape offset_group pads strides
DepthToSpace 1 1 1,11,13 blocksize mode:11-=DCR|CRD
DequantizeLinear 3 1 10,13,19,21,23,24,25 axis:13- block_size:21- output_dtype:23-
Det 1 1 11,22
Div 2 1 1,6,7,13,14 axis:1-6 broadcast:1-6=0|1 consumed_inputs
Dropout 1;12:3 2 1,6,7,10,12,13,22 consumed_inputs is_test:1-6=0|1 ratio:1-11 seed:12-
DynamicQuantizeLinear 1 3 11
Einsum * 1 12 equation
Elu 1 1 1,6,22 alpha consumed_inputs
Equal 2 1 1,7,11,13,19 axis:1-6 broadcast:1-6=0|1
Erf 1 1 9,13
Exp 1 1 1,6,13 consumed_inputs
Expand 2 1 8,13
EyeLike 1 1 9,22 dtype k
Flatten 1 1 1,9,11,13,21,23,24,25 axis
Floor 1 1 1,6,13 consumed_inputs
GRU 6 2 1,3,7,14,22 activation_alpha activation_beta activations clip direction=forward|reverse|bidirectional hidden_size layout:14-=0|1 linear_before_reset:3-=0|1 output_sequence
Gather 2 1 1,11,13 axis
GatherElements 2 1 11,13 axis
GatherND 2 1 11,12,13 batch_dims:12-
Gelu 1 1 20 approximate=none|tanh
Gemm 3 1 1,6,7,9,11,13 alpha beta broadcast:1-6=0|1 transA=0|1 transB=0|1
GlobalAveragePool 1 1 1,22
GlobalLpPool 1 1 1,2,22 p
GlobalMaxPool 1 1 1,22
Greater 2 1 1,7,9,13 axis:1-6 broadcast:1-6=0|1
GreaterOrEqual 2 1 12,16
GridSample 2 1 16,20,22 align_corners=0|1 mode=bilinear|nearest|bicubic|linear|cubic padding_mode=zeros|border|reflection
GroupNormalization 3 1 18,21 epsilon num_groups stash_type:21-=1|10|11|16
HammingWindow 1 1 17 output_datatype periodic=0|1
HannWindow 1 1 17 output_datatype periodic=0|1
HardSigmoid 1 1 1,6,22 alpha beta consumed_inputs
HardSwish 1 1 14,22
Hardmax 1 1 1,11,13 axis
Identity 1 1 1,13,14,16,19,21,23,24,25
If 1 * 1,11,13,16,19,21,23,24,25 else_branch then_branch
InstanceNormalization 3 1 1,6,22 consumed_inputs epsilon
IsInf 1 1 10,20 detect_negative=0|1 detect_positive=0|1
IsNaN 1 1 9,13,20
LRN 1 1 1,13 alpha beta bias size
LSTM 8 3 1,7,14,22 activation_alpha activation_beta activations clip direction=forward|reverse|bidirectional hidden_size input_forget=0|1 layout:14-=0|1 output_sequence
LayerNormalization 3 3 1,17 axis epsilon stash_type=1|10|11|16
LeakyRelu 1 1 1,6,16 alpha consumed_inputs
Less 2 1 1,7,9,13 axis:1-6 broadcast:1-6=0|1
LessOrEqual 2 1 12,16
LinearAttention 6 2 27 chunk_size kv_num_heads q_num_heads scale update_rule=linear|gated|delta|gated_delta
Log 1 1 1,6,13 consumed_inputs
LogSoftmax 1 1 1,11,13 axis
Loop * * 1,11,13,16,19,21,23,24,25 body
LpNormalization 1 1 1,22 axis p=1|2
LpPool 1 1 1,2,11,18,22 auto_pad=|NOTSET|SAME_UPPER|SAME_LOWER|VALID ceil_mode:18-=0|1 dilations:18- kernel_shape p pads strides
MatMul 2 1 1,9,13
MatMulInteger 4 1 10
Max * 1 1,6,8,12,13 consumed_inputs
MaxPool 1 1;8:2 1,8,10,11,12,22 auto_pad=|NOTSET|SAME_UPPER|SAME_LOWER|VALID ceil_mode:10-=0|1 dilations:10- kernel_shape pads storage_order:8-=0|1 strides
MaxRoiPool 2 1 1,22 pooled_shape spatial_scale
MaxUnpool 3 1 9,11,22 kernel_shape pads strides
Mean * 1 1,6,8,13 consumed_inputs
MeanVarianceNormalization 1 1 1,9,13 axes
MelWeightMatrix 5 1 17 output_datatype
Min * 1 1,6,8,12,13 consumed_inputs
Mish 1 1 18,22
Mod 2 1 10,13 fmod=0|1
Mul 2 1 1,6,7,13,14 axis:1-6 broadcast:1-6=0|1 consumed_inputs
Multinomial 1 1 7,22 dtype sample_size seed
Neg 1 1 1,6,13 consumed_inputs
NegativeLogLikelihoodLoss 3 1 12,13,22 ignore_index reduction=none|mean|sum
NonMaxSuppression 5 1 10,11 center_point_box=0|1
NonZero 1 1 9,13
Not 1 1 1
OneHot 3 1 9,11 axis
Optional 1 1 15 type
OptionalGetElement 1 1 15,18
OptionalHasElement 1 1 15,18
Or 2 1 1,7 axis:1-6 broadcast:1-6=0|1
PRelu 2 1 1,6,7,9,16 consumed_inputs
Pad 1;11:3;18:4 1 1,2,11,13,18,19,21,23,24,25 mode=constant|reflect|edge|wrap paddings:1-1 pads:2-10 value:1-10
Pow 2 1 1,7,12,13,15 axis:1-6 broadcast:1-6=0|1
QLinearConv 9 1 10 auto_pad=|NOTSET|SAME_UPPER|SAME_LOWER|VALID dilations group kernel_shape pads strides
QLinearMatMul 8 1 10,21
QuantizeLinear 3 1 10,13,19,21,23,24,25 axis:13- block_size:21- output_dtype:21- precision:23- saturate:19-=0|1
RMSNormalization 2 1 23 axis epsilon stash_type=1|10|11|16
RNN 6 2 1,7,14,22 activation_alpha activation_beta activations clip direction=forward|reverse|bidirectional hidden_size layout:14-=0|1 output_sequence
RandomNormal 0 1 1,22 dtype mean scale seed shape
RandomNormalLike 1 1 1,22 dtype mean scale seed
RandomUniform 0 1 1,22 dtype high low seed shape
RandomUniformLike 1 1 1,22 dtype high low seed
Range 3 1 11,27
Reciprocal 1 1 1,6,13 consumed_inputs
ReduceL1 1;18:2 1 1,11,13,18 axes:1-17 keepdims=0|1 noop_with_empty_axes:18-=0|1
ReduceL2 1;18:2 1 1,11,13,18 axes:1-17 keepdims=0|1 noop_with_empty_axes:18-=0|1
ReduceLogSum 1;18:2 1 1,11,13,18 axes:1-17 keepdims=0|1 noop_with_empty_axes:18-=0|1
ReduceLogSumExp 1;18:2 1 1,11,13,18 axes:1-17 keepdims=0|1 noop_with_empty_axes:18-=0|1
ReduceMax 1;18:2 1 1,11,12,13,18,20 axes:1-17 keepdims=0|1 noop_with_empty_axes:18-=0|1
ReduceMean 1;18:2 1 1,11,13,18 axes:1-17 keepdims=0|1 noop_with_empty_axes:18-=0|1
ReduceMin 1;18:2 1 1,11,12,13,18,20 axes:1-17 keepdims=0|1 noop_with_empty_axes:18-=0|1
ReduceProd 1;18:2 1 1,11,13,18 axes:1-17 keepdims=0|1 noop_with_empty_axes:18-=0|1
ReduceSum 1;13:2 1 1,11,13 axes:1-12 keepdims=0|1 noop_with_empty_axes:13-=0|1
ReduceSumSquare 1;18:2 1 1,11,13,18 axes:1-17 keepdims=0|1 noop_with_empty_axes:18-=0|1
Relu 1 1 1,6,13,14 consumed_inputs
Reshape 1;5:2 1 1,5,13,14,19,21,23,24,25 allowzero:14-=0|1 consumed_inputs shape:1-4
Resize 2;11:4 1 10,11,13,18,19 antialias:18-=0|1 axes:18- coordinate_transformation_mode:11-=half_pixel|half_pixel_symmetric|pytorch_half_pixel|align_corners|asymmetric|tf_half_pixel_for_nn|tf_crop_and_resize cubic_coeff_a:11- exclude_outside:11-=0|1 extrapolation_value:11- keep_aspect_ratio_policy:18-=stretch|not_larger|not_smaller mode=nearest|linear|cubic nearest_mode:11-=round_prefer_floor|round_prefer_ceil|floor|ceil
ReverseSequence 2 1 10 batch_axis=0|1 time_axis=0|1
RoiAlign 3 1 10,16,22 coordinate_transformation_mode:16-=half_pixel|output_half_pixel mode=avg|max output_height output_width sampling_ratio spatial_scale
RotaryEmbedding 4 1 23 interleaved=0|1 num_heads rotary_embedding_dim
Round 1 1 11,22
STFT 4 1 17 onesided=0|1
Scan * * 8,9,11,16,19,21,23,24,25 body directions:8-8=0|1 num_scan_inputs scan_input_axes:9- scan_input_directions:9-=0|1 scan_output_axes:9- scan_output_directions:9-=0|1
Scatter 3 1 9,11 axis
ScatterElements 3 1 11,13,16,18 axis reduction:16-=none|add|mul|max|min
ScatterND 3 1 11,13,16,18 reduction:16-=none|add|mul|max|min
Selu 1 1 1,6,22 alpha consumed_inputs gamma
SequenceAt 2 1 11
SequenceConstruct * 1 11
SequenceEmpty 0 1 11 dtype
SequenceErase 2 1 11
SequenceInsert 3 1 11
SequenceLength 1 1 11
SequenceMap * * 17 body
Shape 1 1 1,13,15,19,21,23,24,25 end:15- start:15-
Shrink 1 1 9 bias lambd
Sigmoid 1 1 1,6,13 consumed_inputs
Sign 1 1 9,13
SimplifiedLayerNormalization 2 2 1 axis epsilon stash_type=1|10|11|16
Sin 1 1 7,22
Sinh 1 1 9,22
Size 1 1 1,13,19,21,23,24,25
Slice 1;10:5 1 1,10,11,13 axes:1-9 ends:1-9 starts:1-9
Softmax 1 1 1,11,13 axis
SoftmaxCrossEntropyLoss 3 2 12,13 ignore_index reduction=none|mean|sum
Softplus 1 1 1,22
Softsign 1 1 1,22
SpaceToDepth 1 1 1,13 blocksize
Split 2;2:1;13:2 * 1,2,11,13,18 axis num_outputs:18- split:1-12
SplitToSequence 2 1 11,24 axis keepdims=0|1
Sqrt 1 1 1,6,13 consumed_inputs
Squeeze 1;13:2 1 1,11,13,21,23,24,25 axes:1-12
StringNormalizer 1 1 10 case_change_action is_case_sensitive=0|1 locale stopwords
Sub 2 1 1,6,7,13,14 axis:1-6 broadcast:1-6=0|1 consumed_inputs
Sum * 1 1,6,8,13 consumed_inputs
SwiGLU 2 1 28 alpha
Swish 1 1 24 alpha
Tan 1 1 7,22
Tanh 1 1 1,6,13 consumed_inputs
TensorScatter 3 1 24 axis mode=linear|circular
TfIdfVectorizer 1 1 9 max_gram_length max_skip_count min_gram_length mode=TF|IDF|TFIDF ngram_counts ngram_indexes pool_int64s pool_strings weights
ThresholdedRelu 1 1 1,10,22 alpha
Tile 3;6:2 1 1,6,13
TopK 1;10:2 2 1,10,11,24 axis k:1-9 largest:11-=0|1 sorted:11-=0|1
Transpose 1 1 1,13,21,23,24,25 perm
Trilu 2 1 14 upper=0|1
Unique 1 4 11 axis sorted=0|1
Unsqueeze 1;13:2 1 1,11,13,21,23,24,25 axes:1-12
Upsample 1;9:2 1 1,7,9,10 height_scale:1-6 mode=nearest|linear|bilinear scales:7-8 width_scale:1-6
Where 3 1 9,16
Xor 2 1 1,7 axis:1-6 broadcast:1-6=0|1
com.microsoft.Attention 7 2 1 do_rotary=0|1 mask_filter_value num_heads past_present_share_buffer=0|1 qkv_hidden_sizes rotary_embedding_dim scale unidirectional=0|1
com.microsoft.BiasGelu 2 1 1
com.microsoft.DequantizeLinear 3 1 1 axis block_size
com.microsoft.DynamicQuantizeMatMul 5 1 1
com.microsoft.EmbedLayerNormalization 9 3 1 epsilon mask_index_type=0|1
com.microsoft.FastGelu 2 1 1
com.microsoft.FusedConv 4 1 1 activation activation_params auto_pad=|NOTSET|SAME_UPPER|SAME_LOWER|VALID dilations group kernel_shape pads strides
com.microsoft.FusedGemm 3 1 1 activation activation_alpha activation_beta activation_gamma alpha beta transA=0|1 transB=0|1
com.microsoft.FusedMatMul 2 1 1 alpha transA=0|1 transB=0|1 transBatchA=0|1 transBatchB=0|1
com.microsoft.Gelu 1 1 1
com.microsoft.GroupQueryAttention 16 4 1 causal=0|1 do_rotary=0|1 k_quant_type kv_cache_bit_width kv_num_heads local_window_size num_heads qk_norm_epsilon qk_output rotary_interleaved=0|1 scale sliding_window_cache=0|1 smooth_softmax=0|1 softcap v_quant_type
com.microsoft.MatMulIntegerToFloat 7 1 1
com.microsoft.MatMulNBits 6 1 1 K N accuracy_level bits block_size weight_prepacked
com.microsoft.MultiHeadAttention 10 4 1 mask_filter_value num_heads scale unidirectional=0|1
com.microsoft.QGemm 9 1 1 alpha transA=0|1 transB=0|1
com.microsoft.QLinearAdd 8 1 1
com.microsoft.QLinearAveragePool 5 1 1 auto_pad=|NOTSET|SAME_UPPER|SAME_LOWER|VALID ceil_mode=0|1 channels_last=0|1 count_include_pad=0|1 kernel_shape pads strides
com.microsoft.QLinearConcat * 1 1 axis
com.microsoft.QLinearGlobalAveragePool 5 1 1 channels_last=0|1
com.microsoft.QLinearLeakyRelu 5 1 1 alpha
com.microsoft.QLinearMul 8 1 1
com.microsoft.QLinearSigmoid 5 1 1
com.microsoft.QLinearSoftmax 5 1 1 axis opset
com.microsoft.QuantizeLinear 3 1 1 axis block_size
com.microsoft.QuickGelu 1 1 1 alpha
com.microsoft.RotaryEmbedding 4 1 1 interleaved=0|1 is_packed_batching=0|1 num_heads rotary_embedding_dim scale
com.microsoft.SkipLayerNormalization 5 4 1 epsilon
com.microsoft.SkipSimplifiedLayerNormalization 4 4 1 epsilon
)";

std::optional<size_t> numberOf(const std::string &text) {
  if (text == "*") return std::nullopt;
  return static_cast<size_t>(std::strtoul(text.c_str(), nullptr, 10));
}

int64_t integer(const std::string &text) { return std::strtoll(text.c_str(), nullptr, 10); }

/// "1;13:2".
OpForm::Counts countsOf(const std::string &text) {
  OpForm::Counts counts;
  std::istringstream list(text);
  for (std::string part; std::getline(list, part, ';');) {
    const size_t colon = part.find(':');
    if (colon == std::string::npos)
      counts.emplace_back(1, numberOf(part));
    else
      counts.emplace_back(integer(part.substr(0, colon)), numberOf(part.substr(colon + 1)));
  }
  return counts;
}

/// "axis", "axis:1-6", "mode:11-=DCR|CRD".
void readAttribute(const std::string &text, OpForm *form) {
  const size_t equal = text.find('='), colon = text.substr(0, equal).find(':');
  const std::string name = text.substr(0, std::min(equal, colon));
  form->attributes.push_back(name);
  if (colon != std::string::npos) {
    const size_t dash = text.find('-', colon);
    const std::string last = text.substr(dash + 1, equal == std::string::npos ? equal : equal - dash - 1);
    form->sets[name] = {integer(text.substr(colon + 1, dash - colon - 1)), last.empty() ? INT64_MAX : integer(last)};
  }
  if (equal == std::string::npos) return;
  std::istringstream values(text.substr(equal + 1));
  for (std::string value; std::getline(values, value, '|');) form->values[name].push_back(value);
}

std::map<std::string, OpForm> readTable() {
  std::map<std::string, OpForm> table;
  std::istringstream lines(kTable);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string op, inputs, outputs, versions;
    if (!(words >> op >> inputs >> outputs >> versions)) continue;
    OpForm &form = table[op];
    form.inputs = countsOf(inputs), form.outputs = countsOf(outputs);
    std::istringstream list(versions);
    for (std::string version; std::getline(list, version, ',');) form.versions.push_back(integer(version));
    for (std::string attribute; words >> attribute;) readAttribute(attribute, &form);
  }
  return table;
}

} // namespace

std::optional<size_t> mostIn(const OpForm::Counts &counts, int64_t version) {
  std::optional<size_t> most = counts.front().second;
  for (const auto &[since, count] : counts)
    if (version >= since) most = count;
  return most;
}

const OpForm *formOf(const std::string &domain, const std::string &op) {
  static const auto kOps = readTable();
  const auto found = kOps.find(domain.empty() ? op : domain + "." + op);
  return found == kOps.end() ? nullptr : &found->second;
}

} // namespace opc::onnx
