// Training graphs for the planner: transformers, convolutional nets, branches and diamonds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "NetBuilder.h"

namespace opc::bench {

/// Embedding, `layers` blocks of attention and MLP, head tied to the embedding, cross-entropy that may be split over
/// the vocabulary, SGD.
struct GptShape {
  int64_t batch = 32, sequence = 1024, hidden = 2048, heads = 32, vocabulary = 51200;
};
planner::Problem gpt(const Cluster &cluster, int layers, const GptShape &shape = {});
/// ResNet-50 on 224 x 224 images; `blocks` of each stage, bottleneck blocks with batch normalisation.
planner::Problem resnet(const Cluster &cluster, const std::vector<int> &blocks = {3, 4, 6, 3}, int64_t batch = 256);
/// Modules of four branches that are concatenated, as in GoogLeNet and Inception.
planner::Problem inception(const Cluster &cluster, int modules = 9, int64_t batch = 256);
/// Chains of diamonds: two or three matmuls of one tensor, added; every third diamond also skips over the next one.
planner::Problem diamonds(const Cluster &cluster, int count, int64_t rows = 4096, int64_t width = 2048);
/// An MLP: matmul, bias, relu.
planner::Problem mlp(const Cluster &cluster, int layers, int64_t rows = 4096, int64_t width = 8192);

} // namespace opc::bench
