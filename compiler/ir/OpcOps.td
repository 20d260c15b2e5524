// The opc dialect: one generic operator, and the few structural ops around it.
// SPDX-License-Identifier: Apache-2.0
#ifndef OPC_OPS
#define OPC_OPS

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Opc_Dialect : Dialect {
  let name = "opc";
  let cppNamespace = "::opc::ir";
  let summary = "Static operator graphs whose operators are defined outside the compiler.";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    /// The registry that gives `opc.user_op` its meaning; without one only structure is verified.
    void setRegistry(const ::opc::Registry *registry) {
      registry_ = registry;
      definitions_.clear();
    }
    const ::opc::Registry *getRegistry() const { return registry_; }
    /// The definition of an op type; null when the registry does not have it.
    const ::opc::user_op::OpDef *definition(::mlir::StringAttr opType);
  private:
    const ::opc::Registry *registry_ = nullptr;
    // Asked at every look at an op; the verifier asks from several threads.
    ::llvm::DenseMap<::mlir::StringAttr, const ::opc::user_op::OpDef *> definitions_;
    ::std::shared_mutex definitionsMutex_;
  public:
    void registerAttributes();
    void registerTypes();
  }];
}

class Opc_Type<string name, string mnemonicText> : TypeDef<Opc_Dialect, name> { let mnemonic = mnemonicText; }
class Opc_Attr<string name, string mnemonicText, list<Trait> traits = []> : AttrDef<Opc_Dialect, name, traits> {
  let mnemonic = mnemonicText;
}

def Opc_UnresolvedType : Opc_Type<"Unresolved", "unresolved"> {
  let summary = "The type of a tensor before shape inference.";
}

def Opc_ShapeAttr : Opc_Attr<"Shape", "shape"> {
  let summary = "A shape-valued attribute (at_shape).";
  let parameters = (ins "::mlir::DenseI64ArrayAttr":$value);
  let assemblyFormat = "`<` $value `>`";
  let extraClassDeclaration = "::llvm::ArrayRef<int64_t> getDims() const { return getValue().asArrayRef(); }";
}
def Opc_DataTypeAttr : Opc_Attr<"DataType", "dtype"> {
  let summary = "A data-type-valued attribute (at_data_type), by its number.";
  let parameters = (ins "int32_t":$value);
  let assemblyFormat = "`<` $value `>`";
}
def Opc_ListAttr : Opc_Attr<"List", "list"> {
  let summary = "A list of data types, shapes or strings; `kind` keeps an empty list's type.";
  let parameters = (ins "int32_t":$kind, "::mlir::ArrayAttr":$values);
  let assemblyFormat = "`<` $kind `,` $values `>`";
}
def Opc_RawAttr : Opc_Attr<"Raw", "raw"> {
  let summary = "An attribute value that no operator reads, as the bytes of its AttrValue.";
  let parameters = (ins "int32_t":$kind, "::mlir::StringAttr":$bytes);
  let assemblyFormat = "`<` $kind `,` $bytes `>`";
}

def Opc_Role : I32EnumAttr<"Role", "what an op of a training graph is for", [
    I32EnumAttrCase<"kForward", 0, "forward">,
    I32EnumAttrCase<"kBackward", 1, "backward">,
    I32EnumAttrCase<"kOptimizer", 2, "optimizer">,
    I32EnumAttrCase<"kAccumulation", 3, "accumulation">]> {
  let cppNamespace = "::opc::ir";
  let genSpecializedAttr = 0;
}
def Opc_RoleAttr : EnumAttr<Opc_Dialect, Opc_Role, "role"> {
  let summary = "What an op is for: the forward or backward pass, the optimizer, the accumulation of gradients.";
  let assemblyFormat = "`<` $value `>`";
}

def Opc_StateAttr : Opc_Attr<"State", "state"> {
  let summary = "How a tensor is cut over a mesh: S(axis), B or P for each of its dimensions.";
  let description = [{
    `#opc.state<S(0)>` on a mesh of one dimension, `#opc.state<S(0), B>` on one of two. The outermost dimension first.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t", "state codes (SbpCode.h)">:$codes);
  let builders = [AttrBuilder<(ins "const ::opc::NdSbp &":$states)>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = "::opc::NdSbp getStates() const;";
}
def Opc_ShardingAttr : Opc_Attr<"Sharding", "sharding"> {
  let summary = "What a rank's tensor is a piece of: the placement, the state on it, and the dimensions of the whole.";
  let description = "`#opc.sharding<0, [S(0), B], [8, 4]>`: axes that are split exist, and there are no negative dimensions.";
  let parameters = (ins "uint32_t":$placement, "StateAttr":$state, ArrayRefParameter<"int64_t">:$dims);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}
def Opc_PlacementAttr : Opc_Attr<"Placement", "placement"> {
  let summary = "Ranks arranged as a mesh.";
  let description = "`#opc.placement<[2, 2], [0, 1, 2, 3]>`: as many ranks as the dimensions multiply to, none twice.";
  let parameters = (ins ArrayRefParameter<"int64_t">:$dims, ArrayRefParameter<"int64_t">:$ranks);
  let assemblyFormat = "`<` `[` $dims `]` `,` `[` $ranks `]` `>`";
  let genVerifyDecl = 1;
}
def Opc_StateArrayAttr : TypedArrayAttrBase<Opc_StateAttr, "states of several tensors">;

def Opc_InitializerAttr : Opc_Attr<"Initializer", "initializer"> {
  let summary = "How a variable gets its first value.";
  let description = [{
    The kind and the fields of an InitializerConf: `#opc.initializer<"constant_conf", {value = 1.0 : f32}>`. A field is an
    integer, a float or a string; those that are absent have the message's default.
  }];
  let parameters = (ins "::mlir::StringAttr":$kind, "::mlir::DictionaryAttr":$fields);
  let assemblyFormat = "`<` $kind `,` $fields `>`";
  let genVerifyDecl = 1;
}
def Opc_JobAttr : Opc_Attr<"Job", "job"> {
  let summary = "What a graph file says beside its ops, for whoever writes the graph again; no phase reads it.";
  let parameters = (ins "::mlir::StringAttr":$trainConf, "::mlir::StringAttr":$rest);
  let assemblyFormat = "`<` struct(params) `>`";
}
def Opc_DeviceAttr : Opc_Attr<"Device", "device"> {
  let summary = "A device of the machine: its kind, as kernels name it, and its number among those of the kind.";
  let description = "`#opc.device<\"cpu\", 0>`.";
  let parameters = (ins "::mlir::StringAttr":$kind, "uint32_t":$index);
  let assemblyFormat = "`<` $kind `,` $index `>`";
  let genVerifyDecl = 1;
}
def Opc_BoundAttr : Opc_Attr<"Bound", "bound", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "The encoding of a tensor type with sizes of which only the largest value is known.";
  let description = [{
    `tensor<?x4xf32, #opc.bound<8, 4>>` has at most 8 rows. There is a bound for each dimension; that of a known one is
    its size.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$dims);
  let assemblyFormat = "`<` $dims `>`";
}

class Opc_Op<string mnemonicText, list<Trait> traits = []> : Op<Opc_Dialect, mnemonicText, traits>;

def Opc_UserOp : Opc_Op<"user_op", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "An instance of a registered operator.";
  let description = [{
    The twin of UserOpConf. Operands and results are grouped by argument name in the order of the operator's
    definition. The instance's name is its location, so that equal ops can be merged. A role other than forward and a
    device stand before the attributes: `role backward`, `on <"cpu", 0>`.
    ```
    %h = opc.user_op "matmul"(a: %x, b: %w) -> (out) {transpose_b = true} : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
    ```
  }];
  let arguments = (ins
    Variadic<AnyType>:$args,
    StrAttr:$opType,
    StrArrayAttr:$inputNames,
    DenseI32ArrayAttr:$inputSizes,
    StrArrayAttr:$outputNames,
    DenseI32ArrayAttr:$outputSizes,
    DictionaryAttr:$opAttrs,
    DefaultValuedAttr<Opc_RoleAttr, "::opc::ir::Role::kForward">:$role,
    OptionalAttr<Opc_DeviceAttr>:$device);
  let results = (outs Variadic<AnyType>:$outs);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The tensor of an argument; null when the op does not have it.
    ::mlir::Value input(::llvm::StringRef arg, int32_t index = 0);
    /// The operand or result that an argument and index name; nothing when the op does not have it.
    std::optional<unsigned> inputNumber(::llvm::StringRef arg, int32_t index = 0);
    std::optional<unsigned> outputNumber(::llvm::StringRef arg, int32_t index = 0);
    /// f(argument, its tensors), in the order of the operands and of the results.
    void forEachInputArg(::llvm::function_ref<void(::llvm::StringRef, ::mlir::ValueRange)> f);
    void forEachOutputArg(::llvm::function_ref<void(::llvm::StringRef, ::mlir::ValueRange)> f);
    /// f(argument, index, tensor).
    void forEachInput(::llvm::function_ref<void(::llvm::StringRef, int32_t, ::mlir::Value)> f);
    void forEachOutput(::llvm::function_ref<void(::llvm::StringRef, int32_t, ::mlir::Value)> f);
    /// What the registry says of the op's type; null when it does not know it, or when the context has no registry.
    const ::opc::user_op::OpDef *def();
    /// An attribute of the operator as T, or `otherwise` when the op does not carry it.
    template <class T> T attribute(::llvm::StringRef name, T otherwise) {
      ::mlir::Attribute a = getOpAttrs().get(name);
      if (!a) return otherwise;
      const ::opc::AttrValue value = ::opc::ir::fromMlir(a);
      const T *found = std::get_if<T>(&value.variant());
      return found ? *found : otherwise;
    }
  }];
}

def Opc_BoxingOp : Opc_Op<"boxing", [Pure]> {
  let summary = "A step from one state of tensors to another: one collective.";
  let description = [{
    Result i is operand i in another state. `from` and `to` have the states of each tensor on a mesh; `source` and
    `target` are placements (indices into the module's `opc.placements`), equal but for an exchange. `channel` 0 is the
    stream of the computation. Types are those of the whole tensors in a logical graph and those of a rank's pieces in a
    physical one, where an exchange has no operands on ranks that only receive and no results on ranks that only send.
    ```
    %1 = opc.boxing "all_reduce" (%0) dim 0 "sum" [P] -> [B] on 0 -> 0 channel 0 : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins
    Variadic<AnyType>:$args,
    StrAttr:$kind,
    I32Attr:$meshDim,
    StrAttr:$reduction,
    Opc_StateArrayAttr:$from,
    Opc_StateArrayAttr:$to,
    I32Attr:$source,
    I32Attr:$target,
    I32Attr:$channel);
  let results = (outs Variadic<AnyType>:$outs);
  let assemblyFormat = [{
    $kind `(` $args `)` `dim` $meshDim $reduction custom<States>($from) `->` custom<States>($to) `on` $source `->` $target `channel` $channel attr-dict
    `:` functional-type($args, $outs)
  }];
}

def Opc_FusedOp : Opc_Op<"fused", [IsolatedFromAbove, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "Ops that one kernel computes: those of its region.";
  let description = [{
    The region has one block, whose arguments are the operands. It holds `opc.constant`s, and `opc.user_op`s that only make results (dropout may be one), and ends
    with an `opc.yield` of the results. What it computes is what the ops one after the other compute.
    ```
    %y = opc.fused "relu_exp"(%x) : (tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%a: tensor<4xf32>):
      %0 = opc.user_op "relu"(x: %a) -> (y) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = opc.user_op "exp"(x: %0) -> (y) : (tensor<4xf32>) -> tensor<4xf32>
      opc.yield %1 : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$args, StrAttr:$kind, OptionalAttr<Opc_DeviceAttr>:$device);
  let results = (outs Variadic<AnyType>:$outs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$kind `(` $args `)` (`on` $device^)? attr-dict `:` functional-type($args, $outs) $body";
  let hasRegionVerifier = 1;
}
def Opc_YieldOp : Opc_Op<"yield", [Pure, Terminator, HasParent<"FusedOp">]> {
  let summary = "The results of an `opc.fused`.";
  let arguments = (ins Variadic<AnyType>:$args);
  let assemblyFormat = "($args^ `:` type($args))? attr-dict";
}

def Opc_InputOp : Opc_Op<"input", [MemoryEffects<[MemAlloc]>]> {
  let summary = "A tensor that the caller feeds.";
  let arguments = (ins StrAttr:$name);
  let results = (outs AnyType:$out);
  let assemblyFormat = "$name attr-dict `:` type($out)";
}
def Opc_VariableOp : Opc_Op<"variable", [MemoryEffects<[MemAlloc]>]> {
  let summary = "A tensor that keeps its value between steps.";
  let description = [{
    ```
    %w = opc.variable "w" init #opc.initializer<"constant_conf", {value = 1.0 : f32}> seed 7 : tensor<4xf32>
    %n = opc.variable "steps" {trainable = false} : tensor<1xi64>
    ```
  }];
  let arguments = (ins StrAttr:$name, DefaultValuedAttr<BoolAttr, "true">:$trainable,
                       OptionalAttr<Opc_InitializerAttr>:$initializer, OptionalAttr<I64Attr>:$seed);
  let results = (outs AnyType:$out);
  let assemblyFormat = "$name (`init` $initializer^)? (`seed` $seed^)? attr-dict `:` type($out)";
}
def Opc_ConstantOp : Opc_Op<"constant", [Pure]> {
  let summary = "A tensor known at compile time.";
  let arguments = (ins ElementsAttr:$value, DefaultValuedAttr<Opc_RoleAttr, "::opc::ir::Role::kForward">:$role);
  let results = (outs AnyType:$out);
  let assemblyFormat = "$value (`role` $role^)? attr-dict `:` type($out)";
}
def Opc_OutputOp : Opc_Op<"output", [MemoryEffects<[MemWrite]>]> {
  let summary = "A tensor that the caller fetches.";
  let arguments = (ins AnyType:$in, StrAttr:$name);
  let assemblyFormat = "$name `(` $in `)` attr-dict `:` type($in)";
}

#endif
