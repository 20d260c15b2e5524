// The passes of the compiler, in the order in which a graph meets them.
// SPDX-License-Identifier: Apache-2.0
#ifndef OPC_PASSES
#define OPC_PASSES

include "mlir/Pass/PassBase.td"

// Ops mean what the registry of the context's opc dialect says. Every pass works on a module whose first function is the
// graph.
class GraphPass<string argument> : PassBase<argument, "::opc::GraphPass">;

def PruneGraph : GraphPass<"opc-prune"> {
  let summary = "Erases what nothing that is asked for needs, before tensors have types";
  let description = [{
    What `opc run --until` or `--output` does not need need not have a shape, and its inputs need no values. Kept is
    what tensors of `until` and `feed` and ops of `only` depend on; of `outputs`, what these outputs and ops that write
    variables depend on.
  }];
  let options = [
    ListOption<"feeds", "feed", "std::string", "Tensors that will become inputs">,
    ListOption<"until", "until", "std::string", "Tensors that will become the only outputs">,
    ListOption<"only", "only", "std::string", "Names of the ops that will be kept">,
    ListOption<"outputs", "output", "std::string", "Names of the outputs that are kept">
  ];
}

def InferShapes : GraphPass<"opc-infer-shapes"> {
  let summary = "Gives every tensor its shape and element type";
  let description = [{
    Runs each op's own shape rule over the graph in order and checks attributes and the operands that ops write. All
    errors are reported; an op whose operand has failed is not blamed.
  }];
}

def CutGraph : GraphPass<"opc-cut"> {
  let summary = "Stops a graph at tensors, begins it at tensors, or keeps some ops alone";
  let description = [{
    What `opc run --feed`, `--until` and `--only` ask for. Fed tensors become inputs of the same name, tensors of
    `until` the only outputs; what the ops of `only` read of others becomes an input and what others read of them an
    output. Everything that no output needs is erased. Tensors need their types.
  }];
  let options = [
    ListOption<"feeds", "feed", "std::string", "Tensors that become inputs">,
    ListOption<"until", "until", "std::string", "Tensors that become the only outputs, under their own names">,
    ListOption<"only", "only", "std::string", "Names of the ops that are kept">
  ];
}

def CastOps : GraphPass<"opc-cast-ops"> {
  let summary = "Lets chosen ops compute in another element type";
  let description = [{
    What `--cast-ops` asks for. The floating-point inputs of a chosen op are cast, its results follow from its own rule,
    and whoever reads them gets the type that they had; a chosen op of the same type takes them as they were computed. The
    first request that fits an op's name or type counts.
    Tensors need their types.
  }];
  let options = [
    ListOption<"ops", "op", "std::string", "GLOB=TYPE over names and types of ops">
  ];
}

def WriteOutControl : GraphPass<"opc-write-out-control"> {
  let summary = "Writes branches and turns out where ops with graphs cannot run";
  let description = [{
    For several devices and for GPUs. An `if` becomes the ops of both branches and a choice of each result, a `loop` those
    of every turn that there can be: of a turn that only the run makes or leaves out, the states before it are chosen
    where it is left out. At most 4096 turns, and their number must have a bound. Results keep their names. Graphs lie in
    attributes as texts, which `opc-opt` reads with `--opc-pipeline` alone. Tensors need their types.
  }];
}

def DropTrainConf : GraphPass<"opc-drop-train-conf"> {
  let summary = "Takes the train_conf out of the job that the graph came with";
  let description = [{
    A graph that is about to be given its gradients or its training step must not be given them again when it is
    written and read back.
  }];
}

def AddGradients : GraphPass<"opc-grad"> {
  let summary = "Adds the gradients of a loss, or a training step";
  let description = [{
    Reverse accumulation over the ops between the losses and the wanted tensors, by the rules of the registry and
    by symbolic differentiation of elementwise functions. Gradients become outputs called `NAME.grad`; with a learning
    rate they are used by `sgd_update`s of the variables instead.
  }];
  let options = [
    ListOption<"losses", "loss", "std::string", "The losses: tensors, outputs or ops with one output">,
    ListOption<"wrt", "wrt", "std::string", "Globs over variables and inputs; none: the trainable variables">,
    Option<"order", "order", "int", "1", "2 adds the gradients of the gradients, and so on">,
    Option<"backwardOnly", "backward-only", "bool", "false", "Keep the backward ops alone">,
    Option<"dyInputs", "dy-inputs", "bool", "false", "The losses' own gradients are inputs NAME.dy">,
    Option<"segments", "segments", "int64_t", "0", "Recompute in so many segments">,
    Option<"rate", "sgd", "double", "0.0", "Add sgd updates at this rate">
  ];
  let statistics = [Statistic<"made", "gradients", "Number of tensors that have got a gradient">];
}

def RequireOutputs : GraphPass<"opc-require-outputs"> {
  let summary = "Refuses a graph without an output";
  let description = [{
    Nothing of such a graph would be run. Changes nothing.
  }];
}

def FoldConstants : GraphPass<"opc-fold-constants"> {
  let summary = "Evaluates ops whose operands are constants";
  let description = [{
    Runs the op's own CPU kernel. Results larger than `max-bytes` are computed at run time and not stored in the plan.
    An op whose kernel fails stays: it fails again at run time, where the error can name the step.
  }];
  let options = [
    Option<"maxBytes", "max-bytes", "int64_t", "1 << 20", "Bytes of an op's results, at most">,
    Option<"splatsOnly", "splats-only", "bool", "false", "Fold only what a graph file can hold: equal elements">
  ];
  let statistics = [Statistic<"folded", "folded", "Number of ops that became constants">];
}

def RemoveNoOps : GraphPass<"opc-remove-no-ops"> {
  let summary = "Removes views and casts that keep the type";
  let description = [{
    An op that only renames its operand goes, unless control orders it: it may stand between two writes.
  }];
  let statistics = [Statistic<"removed", "removed", "Number of ops removed">];
}

def MergeEqualOps : GraphPass<"opc-merge-equal-ops"> {
  let summary = "Merges equal ops, whatever their roles";
  let description = [{
    MLIR's common subexpression elimination, but for roles: an op of the backward pass that computes what a forward op
    has computed is that op. Variables are never equal.
  }];
}

def EliminateDeadOps : GraphPass<"opc-eliminate-dead-ops"> {
  let summary = "Removes ops whose results nobody reads";
  let description = [{
    Ops with effects and inputs stay: inputs are the graph's interface. Variables that nobody reads go.
  }];
  let statistics = [Statistic<"removed", "removed", "Number of ops removed">];
}

// What a graph is planned for. The passes from opc-place-ops to opc-split-ranks take the same.
class MeshPass<string argument> : GraphPass<argument> {
  let options = [
    Option<"mesh", "mesh", "std::string", "\"2\"", "Dimensions of the mesh, outermost first: 2x4">,
    ListOption<"pins", "sbp", "std::string", "States that are decided: GLOB=STATE">,
    ListOption<"stages", "stage", "std::string", "Pipeline stages: GLOB=RANKS">,
    Option<"microBatches", "micro-batches", "int64_t", "1", "Steps of the graph in one training step">,
    Option<"deviceMemory", "device-memory", "int64_t", "0", "Bytes that a device has; 0: no limit">,
    Option<"noOverlap", "no-overlap", "bool", "false", "Reduce gradients in turn with the computation">,
    Option<"randomSeed", "random", "int64_t", "-1", "From 0: random legal signatures in place of the cheapest">
  ];
}

def PlaceOps : MeshPass<"opc-place-ops"> {
  let summary = "Gives each op the ranks that it runs on";
  let description = [{
    Writes the module's `opc.placements` (the whole mesh, then the stages) and each op's `opc.placement`: the stage that
    names it, else the last stage that it reads from; of backward ops that of the forward op, of updates and accumulators
    that of the variable. Sources, and what is computed of variables alone, live with their readers, outputs where they
    are made. What is of several stages is on the whole mesh.
  }];
}

def AssignSignatures : MeshPass<"opc-assign-signatures"> {
  let summary = "Chooses how every tensor is cut over the devices";
  let description = [{
    The graph becomes a problem of the planner; its answer, proven cheapest where the search ends, is written as the
    states of each op's tensors, as copies that are worth keeping and as transfers to other placements.
  }];
}

def InsertBoxing : MeshPass<"opc-insert-boxing"> {
  let summary = "Makes every transition between states an op";
  let description = [{
    Puts `opc.boxing` ops where a reader wants another state than the one that its tensor is made in. Reductions that
    the computation need not wait for get a channel of their own and are joined into buckets.
  }];
}

def NumberBoxings : GraphPass<"opc-number-boxings"> {
  let summary = "Gives boxings their place in the one order that all ranks keep";
  let description = [{
    The order is that of the whole graph, which has been scheduled before.
  }];
}

def AssignLags : MeshPass<"opc-assign-lags"> {
  let summary = "Decides by how many micro-batches the ops of a stage follow its first op";
  let description = [{
    With the registers that follow from it this is the order "one forward, one backward". Updates run in the last
    micro-batch of a round alone. Does nothing without micro-batches.
  }];
}

def SplitRanks : MeshPass<"opc-split-ranks"> {
  let summary = "Writes each rank's graph, with the shapes of its pieces, as a module beside the whole graph";
  let description = [{
    Ranks whose pieces have equal shapes share a module; its `opc.ranks` lists them. What the runtime has to cut or
    check carries its states and whole shape. The whole graph stays as it is.
  }];
}

def WidenHalf : GraphPass<"opc-widen-half"> {
  let summary = "Ops whose kernels compute f16 and bf16 in f32 get tensors of f32, with casts around them";
  let description = [{
    What such a kernel does with its tensors, it makes copies in f32 and rounds its results, stands in the graph then: with
    the same bits, in memory that is planned, in loops with the ops around, and for weights once. Does nothing to a
    graph that trains.
  }];
}

def FuseConvolutions : GraphPass<"opc-fuse-convolutions"> {
  let summary = "conv2d and what follows it become fused_conv2d, products of integers fused_integer ops";
  let description = [{
    Joins bias_add, normalization with stored statistics, addition of a tensor, relu and clip into the convolution, and
    what makes bytes or real numbers of 32-bit sums into convolutions and products of 8-bit integers.
    A result that anybody else reads, that is an output, or that `keep` names, stays a tensor of its own. In a graph that
    trains all ops stay; with `winograd` conv2d and conv_data_grad get that attribute.
  }];
  let options = [
    Option<"winograd", "winograd", "bool", "true", "Let kernels compute 3x3 windows by Winograd's minimal filtering">,
    ListOption<"keeps", "keep", "std::string", "Globs over tensors that stay, for whoever looks at them">
  ];
}

def FuseAttention : GraphPass<"opc-fuse-attention"> {
  let summary = "Two products and the softmax between them become scaled_dot_product_attention";
  let description = [{
    Takes a product of queries and keys, a factor that is known, a mask that is added or chooses, a softmax and a product
    with values, of f32, where that is faster: with 256 x 256 scores of a head or more, 128 x 128 if they are causal, or for up to 16
    queries of 128 keys that were transposed for the product. A constant mask of what is behind each query becomes
    causality, whose scores are not computed. A tensor that anybody else reads, or that is an output, stays, and so do the ops
    that make it. What a mask lowers by 1e30 or more is never seen; a row of scores that an added mask of the run makes
    -inf throughout gives 0, where softmax by itself gives NaN. Does nothing to a graph that trains.
  }];
}

def KeepChannelsLast : GraphPass<"opc-channels-last"> {
  let summary = "Images between fused convolutions stay in channels_last";
  let description = [{
    Fused convolutions, pooling and the elementwise ops between them work in the library's layout; transposes stand
    where other ops begin. Does nothing to a graph that trains.
  }];
}

def CutBatches : GraphPass<"opc-cut-batches"> {
  let summary = "Layers and the ops between them become batch_parts, computed for one part of the batch at a time";
  let description = [{
    Takes runs of ops, two convolutions or products with weights among them, that compute samples from samples where that
    keeps what they hand to each other in the cache, and writes them as a graph of one part in an op of their own.
    Weights that each part would read again count against it. Does nothing to a graph that trains.
  }];
}

def PrepareOps : GraphPass<"opc-prepare"> {
  let summary = "Marks ops that compute the same in every run, which then run once";
  let description = [{
    An op that reads nothing but constants, variables that nothing writes and what such ops make gets the mark
    `opc.prepared`, where a task of every run reads its result: casts of weights, tables that are looked up with constant
    indices, transposed weights. Its result stays in memory, so it may be at most twice as large as what it is made of,
    or 64 KiB. Does nothing to a graph that trains.
  }];
}

def FormRegions : GraphPass<"opc-form-regions"> {
  let summary = "Elementwise ops that one loop computes become opc.fused";
  let description = [{
    Joins elementwise ops of one shape with the elementwise ops that read them, and ops that go by rows (softmax,
    normalizations, losses, reductions of the last axes) with both. No op is computed twice; ops are not joined where a
    tensor would live longer for it, where another rank or this one would wait, or where the loop would read and write
    more than 16 tensors. What others read, and outputs, are results of the region.

    Sums over the first axes and ops that move elements (transposes, slices, joined and padded tensors) join the loop of
    what makes or reads them. In a graph for a GPU those two stay alone, and so does what is placed on the CPU; an op
    without a kernel there for which code can be generated becomes a region, be it alone.
  }];
  let options = [
    Option<"gpu", "gpu", "bool", /*default=*/"false", "The graph is for a GPU">,
    Option<"join", "join", "bool", /*default=*/"true", "Join ops; else regions are what needs generated code alone">
  ];
}

def AssignDevices : GraphPass<"opc-assign-devices"> {
  let summary = "Puts ops of a graph for a GPU on the CPU, with copies between the two";
  let description = [{
    Ops that are placed on the CPU stay there; with `fallback`, so do those that have no kernel for the GPU and one for
    the CPU. What one side makes and the other one reads goes through an op `copy`, a variable that is written through
    one more beside it, which reads it in time. Nothing where all ops are on one side.
  }];
  let options = [
    Option<"fallback", "fallback", "bool", /*default=*/"false", "Place ops without a kernel for the GPU on the CPU">
  ];
}

def ScheduleOps : GraphPass<"opc-schedule"> {
  let summary = "Chooses the order of execution with the smallest peak";
  let description = [{
    Of several topological orders (the graph's own, least memory first, depth first) the one with the smallest peak is
    kept. Ops that write variables run after everybody who reads the old value; boxings keep the order of all ranks.
  }];
}

def BatchUpdates : GraphPass<"opc-batch-updates"> {
  let summary = "Updates of many variables become one task";
  let description = [{
    Updates whose kernels work in pieces, or on a GPU by one launch for many, are joined in the order that the tasks
    have: each may run later, but not behind what follows it, not where gradients that stay alive would raise the peak,
    and not where it would wait for another stream. Where the peak allows some of them alone, the largest stay tasks of
    their own.
  }];
  let options = [
    Option<"gpu", "gpu", "bool", /*default=*/"false", "The graph is for a GPU">
  ];
}

def PlanMemory : GraphPass<"opc-plan-memory"> {
  let summary = "Plans buffers and writes their offsets as opc.offsets";
  let description = [{
    Shows in the IR what the memory phase computes: each result's offset as an attribute of its op, the arena's bytes as
    one of the module. The phase itself hands its result on as data (docs/adr/0013).
  }];
}

#endif
