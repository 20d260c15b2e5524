// Names of operators in PyTorch, ONNX, Keras, TensorFlow and numpy, and what they are here.
// SPDX-License-Identifier: Apache-2.0
#include "OpSuggestions.h"

#include "TextParts.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace opc {

namespace {

constexpr bool kEither = true, kAll = false;

constexpr OpElsewhere kElsewhere[] = {
    // Products
    {"gemm", "matmul bias_add", kAll, "transA, transB and alpha are transpose_a, transpose_b and alpha"},
    {"linear", "matmul bias_add", kAll, "transpose_b: true for weights [out, in]"},
    {"dense", "matmul bias_add", kAll, "transpose_b: false for weights [in, out]"},
    {"innerproduct", "matmul bias_add", kAll, "transpose_b: true for weights [out, in]"},
    {"fullyconnected", "matmul bias_add", kAll, "transpose_b: true for weights [out, in]"},
    {"addmm", "matmul", kAll, "the tensor that is added is the input _add_to_output"},
    {"mm", "matmul", kAll, ""},
    {"bmm", "batch_matmul", kAll, ""},
    {"baddbmm", "batch_matmul", kAll, "the tensor that is added is the input _add_to_output"},
    {"einsum", "matmul transpose reduce_sum", kEither, ""},
    {"mv", "matrix_vector_product", kAll, ""},
    // Arithmetic
    {"add", "broadcast_add add_n scalar_add", kEither, ""},
    {"sum", "reduce_sum add_n", kEither, ""},
    {"plus", "broadcast_add", kAll, ""},
    {"sub", "broadcast_sub", kAll, ""},
    {"subtract", "broadcast_sub", kAll, ""},
    {"minus", "broadcast_sub", kAll, ""},
    {"mul", "broadcast_mul multiply scalar_mul", kEither, ""},
    {"times", "broadcast_mul multiply", kEither, ""},
    {"div", "broadcast_div scalar_div", kEither, ""},
    {"divide", "broadcast_div scalar_div", kEither, ""},
    {"truediv", "broadcast_div", kAll, ""},
    {"floordivide", "floordiv", kAll, ""},
    {"mod", "broadcast_floor_mod broadcast_fmod", kEither, ""},
    {"remainder", "broadcast_floor_mod", kAll, ""},
    {"power", "pow scalar_pow", kEither, ""},
    {"neg", "negative", kAll, ""},
    {"inverse", "reciprocal", kAll, ""},
    {"invsqrt", "rsqrt", kAll, ""},
    {"absolute", "abs", kAll, ""},
    {"fabs", "abs", kAll, ""},
    {"ln", "log", kAll, ""},
    {"ceiling", "ceil", kAll, ""},
    {"sgn", "sign", kAll, ""},
    {"max", "reduce_max broadcast_maximum", kEither, ""},
    {"min", "reduce_min broadcast_minimum", kEither, ""},
    {"maximum", "broadcast_maximum elementwise_maximum", kEither, ""},
    {"minimum", "broadcast_minimum elementwise_minimum", kEither, ""},
    {"amax", "reduce_max", kAll, ""},
    {"amin", "reduce_min", kAll, ""},
    {"clip", "clip_by_scalar", kAll, ""},
    {"clamp", "clip_by_scalar", kAll, ""},
    {"clipbyvalue", "clip_by_scalar", kAll, ""},
    {"equal", "broadcast_equal", kAll, ""},
    {"eq", "broadcast_equal", kAll, ""},
    {"ne", "broadcast_not_equal", kAll, ""},
    {"notequal", "broadcast_not_equal", kAll, ""},
    {"greater", "broadcast_greater", kAll, ""},
    {"gt", "broadcast_greater", kAll, ""},
    {"greaterorequal", "broadcast_greater_equal", kAll, ""},
    {"ge", "broadcast_greater_equal", kAll, ""},
    {"less", "broadcast_less", kAll, ""},
    {"lt", "broadcast_less", kAll, ""},
    {"lessorequal", "broadcast_less_equal", kAll, ""},
    {"le", "broadcast_less_equal", kAll, ""},
    {"and", "broadcast_logical_and", kAll, ""},
    {"or", "broadcast_logical_or", kAll, ""},
    {"xor", "broadcast_logical_xor", kAll, ""},
    {"not", "logical_not", kAll, ""},
    {"select", "where narrow", kEither, ""},
    {"ifelse", "where", kAll, ""},
    // Activations
    {"relu6", "hardtanh", kAll, "min_val: 0 and max_val: 6"},
    {"relun1", "hardtanh", kAll, "min_val: -1 and max_val: 1"},
    {"logistic", "sigmoid", kAll, ""},
    {"swish", "silu", kAll, ""},
    {"gelutanh", "fast_gelu", kAll, ""},
    {"newgelu", "fast_gelu", kAll, ""},
    {"leakyrelulayer", "leaky_relu", kAll, ""},
    {"thresholdedrelu", "threshold", kAll, ""},
    {"logsigmoidlayer", "log_sigmoid", kAll, ""},
    {"softsignlayer", "softsign", kAll, ""},
    {"softmaxlayer", "softmax", kAll, ""},
    {"glu", "narrow sigmoid multiply", kAll, ""},
    {"activation", "relu gelu sigmoid tanh", kEither, ""},
    // Convolution and pooling
    {"conv", "conv1d conv2d conv3d", kEither, ""},
    {"convolution", "conv1d conv2d conv3d", kEither, ""},
    {"depthwiseconv2d", "conv2d", kAll, "groups is the number of channels"},
    {"convtranspose", "deconv1d deconv2d deconv3d", kEither, ""},
    {"convtranspose1d", "deconv1d", kAll, ""},
    {"convtranspose2d", "deconv2d", kAll, ""},
    {"convtranspose3d", "deconv3d", kAll, ""},
    {"conv1dtranspose", "deconv1d", kAll, ""},
    {"conv2dtranspose", "deconv2d", kAll, ""},
    {"conv3dtranspose", "deconv3d", kAll, ""},
    {"maxpool", "max_pool_1d max_pool_2d max_pool_3d", kEither, ""},
    {"maxpooling1d", "max_pool_1d", kAll, ""},
    {"maxpooling2d", "max_pool_2d", kAll, ""},
    {"maxpooling3d", "max_pool_3d", kAll, ""},
    {"averagepool", "avg_pool_1d avg_pool_2d avg_pool_3d", kEither, ""},
    {"avgpool", "avg_pool_1d avg_pool_2d avg_pool_3d", kEither, ""},
    {"averagepooling1d", "avg_pool_1d", kAll, ""},
    {"averagepooling2d", "avg_pool_2d", kAll, ""},
    {"averagepooling3d", "avg_pool_3d", kAll, ""},
    {"globalaveragepool", "adaptive_avg_pool2d", kAll, "output_size: [1, 1]"},
    {"globalaveragepooling2d", "adaptive_avg_pool2d", kAll, "output_size: [1, 1]"},
    {"globalmaxpool", "reduce_max", kAll, "over the axes of the image"},
    {"adaptiveaveragepool2d", "adaptive_avg_pool2d", kAll, ""},
    {"im2col", "unfold", kAll, ""},
    {"col2im", "fold", kAll, ""},
    // Normalization
    {"batchnorm", "normalization", kAll, ""},
    {"batchnorm1d", "normalization", kAll, "axis: 1"},
    {"batchnorm2d", "normalization", kAll, "axis: 1"},
    {"batchnorm3d", "normalization", kAll, "axis: 1"},
    {"batchnormalization", "normalization", kAll, "axis: 1 for images [n, c, h, w]"},
    {"layernormalization", "layer_norm", kAll, ""},
    {"instancenorm", "group_norm", kAll, "as many groups as channels"},
    {"instancenorm2d", "group_norm", kAll, "as many groups as channels"},
    {"instancenormalization", "group_norm", kAll, "as many groups as channels"},
    {"groupnormalization", "group_norm", kAll, ""},
    {"rmsnormalization", "rms_norm", kAll, ""},
    {"normalize", "l2_normalize", kAll, ""},
    {"lpnormalization", "l2_normalize", kAll, ""},
    // Losses
    {"crossentropyloss", "sparse_softmax_cross_entropy", kAll, "then reduce_mean"},
    {"crossentropy", "sparse_softmax_cross_entropy softmax_cross_entropy", kEither, ""},
    {"softmaxcrossentropyloss", "sparse_softmax_cross_entropy", kAll, "then reduce_mean"},
    {"sparsecategoricalcrossentropy", "sparse_softmax_cross_entropy sparse_cross_entropy", kEither, ""},
    {"categoricalcrossentropy", "softmax_cross_entropy", kAll, ""},
    {"nllloss", "nll", kAll, ""},
    {"bceloss", "binary_cross_entropy", kAll, ""},
    {"bcewithlogitsloss", "binary_cross_entropy_with_logits", kAll, ""},
    {"binarycrossentropywithlogitsloss", "binary_cross_entropy_with_logits", kAll, ""},
    {"kldiv", "kl_div_loss", kAll, ""},
    {"l1loss", "broadcast_sub abs reduce_mean", kAll, ""},
    {"mseloss", "broadcast_sub square reduce_mean", kAll, ""},
    {"meansquarederror", "broadcast_sub square reduce_mean", kAll, ""},
    {"huberloss", "smooth_l1_loss", kAll, "beta is the threshold; huber is beta times as much"},
    // Shapes
    {"view", "reshape", kAll, ""},
    {"permute", "transpose", kAll, ""},
    {"swapaxes", "transpose", kAll, ""},
    {"unsqueeze", "expand_dims", kAll, ""},
    {"expandas", "broadcast_like", kAll, ""},
    {"broadcastto", "expand broadcast_like", kEither, ""},
    {"tile", "expand concat", kEither, ""},
    {"repeat", "expand concat", kEither, "OneFlow's, one value for several parts of a batch: opc grad --accumulate N"},
    {"acc", "add_n", kAll, "OneFlow's, the sum over several parts of a batch: opc grad --accumulate N"},
    {"unpack", "narrow", kAll, "OneFlow's, one part of a batch after another: opc compile --micro-batches N"},
    {"concatenate", "concat", kAll, ""},
    {"concatv2", "concat", kAll, ""},
    {"pack", "stack", kAll, ""},
    {"split", "split_like narrow", kEither, ""},
    {"chunk", "split_like narrow", kEither, ""},
    {"stridedslice", "slice", kAll, ""},
    {"reverse", "flip", kAll, ""},
    {"zeropad2d", "constant_pad2d", kAll, ""},
    {"constantpad", "pad", kAll, ""},
    {"resize", "upsample_nearest_2d upsample_bilinear_2d upsample_bicubic_2d", kEither, ""},
    {"upsample", "upsample_nearest_2d upsample_bilinear_2d upsample_bicubic_2d", kEither, ""},
    {"interpolate", "upsample_nearest_2d upsample_bilinear_2d upsample_bicubic_2d", kEither, ""},
    {"trilu", "triu tril", kEither, ""},
    {"clone", "copy identity", kEither, ""},
    {"detach", "identity", kAll, ""},
    {"to", "cast", kAll, ""},
    {"astype", "cast", kAll, ""},
    // Indexing
    {"embeddingbag", "embedding reduce_sum", kAll, ""},
    {"embeddinglookup", "embedding", kAll, ""},
    {"indexselect", "gather", kAll, ""},
    {"take", "gather", kAll, ""},
    {"takealongaxis", "dim_gather", kAll, ""},
    {"gatherelements", "dim_gather", kAll, ""},
    {"scatterelements", "dim_scatter_update dim_scatter_add", kEither, ""},
    {"scatter", "dim_scatter_update", kAll, ""},
    {"scatteradd", "dim_scatter_add", kAll, ""},
    {"segmentsum", "unsorted_segment_sum", kAll, ""},
    // Reductions
    {"mean", "reduce_mean", kAll, ""},
    {"average", "reduce_mean", kAll, ""},
    {"prod", "reduce_prod", kAll, ""},
    {"any", "reduce_any", kAll, ""},
    {"all", "reduce_all", kAll, ""},
    {"reducelogsumexp", "logsumexp", kAll, ""},
    {"reducesumsquare", "square_sum", kAll, ""},
    {"variance", "var", kAll, ""},
    {"std", "var sqrt", kAll, ""},
    // Sources
    {"const", "constant", kAll, ""},
    {"fill", "constant", kAll, ""},
    {"full", "constant", kAll, ""},
    {"constantofshape", "constant", kAll, ""},
    {"zeros", "constant zero_like", kEither, ""},
    {"zeroslike", "zero_like", kAll, ""},
    {"ones", "constant ones_like", kEither, ""},
    {"eyelike", "eye", kAll, ""},
    {"rand", "uniform", kAll, ""},
    {"randn", "normal", kAll, ""},
    {"randomuniform", "uniform", kAll, ""},
    {"randomnormal", "normal", kAll, ""},
    // Recurrent networks
    {"rnncell", "matmul bias_add tanh", kAll, ""},
    {"lstmcell", "matmul bias_add narrow sigmoid tanh multiply add_n", kAll, ""},
    {"grucell", "matmul bias_add narrow sigmoid tanh multiply add_n", kAll, ""},
    {"simplernn", "rnn", kAll, "with its weights in ONNX's order"},
    // Attention and optimizers
    {"attention", "scaled_dot_product_attention", kAll, ""},
    {"multiheadattention", "scaled_dot_product_attention", kAll, "matmul, reshape and transpose before and after it"},
    {"sdpa", "scaled_dot_product_attention", kAll, ""},
    {"sgd", "sgd_update", kAll, "opc grad --optimizer sgd adds it"},
    {"adam", "adam_update", kAll, "opc grad --optimizer adam adds it"},
    {"adamw", "adam_update", kAll, "opc grad --optimizer adamw adds it"},
    {"rmsprop", "rmsprop_update", kAll, "opc grad --optimizer rmsprop adds it"},
};

} // namespace

const std::vector<OpElsewhere> &opsElsewhere() {
  static const std::vector<OpElsewhere> table(std::begin(kElsewhere), std::end(kElsewhere));
  return table;
}

std::string plainOpName(const std::string &type) {
  const size_t prefix = type.find_last_of(".:/");
  std::string plain;
  for (char c : type.substr(prefix == std::string::npos ? 0 : prefix + 1))
    if (c != '_' && c != '-' && c != ' ') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

std::string suggestOps(const Registry &registry, const std::string &type) {
  if (type.size() > 200) return ""; // no name
  const std::string plain = plainOpName(type);
  for (const user_op::OpDef *op : registry.ops())
    if (plainOpName(op->name) == plain) return "did you mean " + op->name + "?";
  for (const OpElsewhere &other : opsElsewhere())
    if (plain == other.name) {
      std::vector<std::string> ops = splitAt(other.ops, ' ');
      const std::string last = ops.back();
      ops.pop_back();
      std::string text = "here that is " + joined(ops, ", ") +
                         (ops.empty()      ? ""
                          : other.isEither ? " or "
                                           : " and ") +
                         last;
      return text + (*other.note ? std::string(" (") + other.note + ")" : "");
    }
  const std::vector<std::string> near = registry.nearest(type);
  return near.empty() ? "" : "did you mean " + joined(near, " or ") + "?";
}

} // namespace opc
