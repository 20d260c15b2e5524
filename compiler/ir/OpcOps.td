// The opc dialect: one generic operator, and the few structural ops around it.
// SPDX-License-Identifier: Apache-2.0
#ifndef OPC_OPS
#define OPC_OPS

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Opc_Dialect : Dialect {
  let name = "opc";
  let cppNamespace = "::opc::ir";
  let summary = "Static operator graphs whose operators are defined outside the compiler.";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
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
class Opc_Attr<string name, string mnemonicText> : AttrDef<Opc_Dialect, name> { let mnemonic = mnemonicText; }

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

class Opc_Op<string mnemonicText, list<Trait> traits = []> : Op<Opc_Dialect, mnemonicText, traits>;

def Opc_UserOp : Opc_Op<"user_op", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "An instance of a registered operator.";
  let description = [{
    The twin of UserOpConf. Operands and results are grouped by argument name in the order of the operator's
    definition. The instance's name is its location, so that equal ops can be merged.
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
    DictionaryAttr:$opAttrs);
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
    %1 = opc.boxing "all_reduce" (%0) dim 0 "sum" ["P"] -> ["B"] on 0 -> 0 channel 0 : (tensor<4xf32>) -> tensor<4xf32>
    ```
  }];
  let arguments = (ins
    Variadic<AnyType>:$args,
    StrAttr:$kind,
    I32Attr:$meshDim,
    StrAttr:$reduction,
    StrArrayAttr:$from,
    StrArrayAttr:$to,
    I32Attr:$source,
    I32Attr:$target,
    I32Attr:$channel);
  let results = (outs Variadic<AnyType>:$outs);
  let assemblyFormat = [{
    $kind `(` $args `)` `dim` $meshDim $reduction $from `->` $to `on` $source `->` $target `channel` $channel attr-dict
    `:` functional-type($args, $outs)
  }];
}

def Opc_InputOp : Opc_Op<"input", [MemoryEffects<[MemAlloc]>]> {
  let summary = "A tensor that the caller feeds.";
  let arguments = (ins StrAttr:$name, StrAttr:$conf);
  let results = (outs AnyType:$out);
  let assemblyFormat = "$name attr-dict `:` type($out)";
}
def Opc_VariableOp : Opc_Op<"variable", [MemoryEffects<[MemAlloc]>]> {
  let summary = "A tensor that keeps its value between steps.";
  let arguments = (ins StrAttr:$name, StrAttr:$conf);
  let results = (outs AnyType:$out);
  let assemblyFormat = "$name attr-dict `:` type($out)";
}
def Opc_ConstantOp : Opc_Op<"constant", [Pure]> {
  let summary = "A tensor known at compile time.";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AnyType:$out);
  let assemblyFormat = "$value attr-dict `:` type($out)";
}
def Opc_OutputOp : Opc_Op<"output", [MemoryEffects<[MemWrite]>]> {
  let summary = "A tensor that the caller fetches.";
  let arguments = (ins AnyType:$in, StrAttr:$name, StrAttr:$conf);
  let assemblyFormat = "$name `(` $in `)` attr-dict `:` type($in)";
}

#endif
