// An ONNX model for sizes in a range: imported at several of them, and one graph made of what it becomes.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxNames.h"
#include "OnnxSizes.h"

#include <algorithm>

namespace opc::onnx {
namespace {

using Sizes = std::vector<int64_t>;

/// Sizes at which a model is looked at: near the largest, inside, and beside the range where that has too few. None is
/// 1 as long as there are others, because what has one row becomes other ops.
std::vector<Sizes> sizesToImport(const std::vector<SizeRange> &ranges) {
  std::vector<Sizes> list(3);
  int64_t step = 0;
  for (const SizeRange &r : ranges) {
    const int64_t least = std::max<int64_t>(r.min, std::min<int64_t>(2, r.max)), length = r.max - least;
    const bool isLong = length > step + 6;
    list[0].push_back(isLong ? r.max - 1 - step : r.max);
    list[1].push_back(isLong ? least + length / 2 : length > 0 ? least : r.max + 1 + step);
    list[2].push_back(isLong ? least + length / 3 : r.max + 3 + 2 * step);
    ++step;
  }
  return list;
}

std::string sizesText(const std::vector<SizeRange> &ranges, const Sizes &sizes) {
  std::string text;
  for (size_t i = 0; i < ranges.size(); ++i)
    text += (i ? ", " : "") + ranges[i].name + " = " + std::to_string(sizes[i]);
  return text;
}

/// The model at some of the sizes.
struct Look {
  Sizes sizes;
  std::optional<ImportedModel> model;
  std::vector<Diagnostic> diagnostics;
};

Look lookAt(const ParsedModel &parsed, const Registry &registry, const ImportRequest &request, const Sizes &sizes) {
  ImportRequest own = request;
  for (const auto &[input, dims] : request.sizes.dims)
    for (size_t k = 0; k < dims.size() && own.shapes.count(input); ++k)
      if (dims[k] >= 0) own.shapes[input][k] = sizes[static_cast<size_t>(dims[k])];
  std::vector<Diagnostic> diagnostics;
  auto model = importOnce(parsed, registry, own, &diagnostics);
  return {sizes, std::move(model), std::move(diagnostics)};
}

/// Which dimensions of the inputs are which sizes, by what they are at two of them.
std::map<std::string, std::vector<int>> sizeDimsOf(const Look &a, const Look &b) {
  std::map<std::string, std::vector<int>> found;
  for (const auto &[name, desc] : a.model->inputs) {
    const Shape &other = b.model->inputs.at(name).shape();
    std::vector<int> dims;
    for (int64_t k = 0; k < desc.shape().NumAxes(); ++k) {
      int size = -1;
      for (size_t i = 0; i < a.sizes.size() && desc.shape().At(k) != other.At(k); ++i)
        if (a.sizes[i] == desc.shape().At(k) && b.sizes[i] == other.At(k)) size = static_cast<int>(i);
      dims.push_back(size);
    }
    if (std::any_of(dims.begin(), dims.end(), [](int s) { return s >= 0; })) found[printableName(name)] = dims;
  }
  return found;
}

std::unique_ptr<GraphFile> merged(const Registry &registry, const std::vector<SizeRange> &ranges, const Look &a,
                                  const Look &b) {
  GraphDraft draft(registry);
  const NamedTerms outputs = mergeSizes(&draft, {&a.model->draft, &a.model->outputs, sizesText(ranges, a.sizes)},
                                        {&b.model->draft, &b.model->outputs, sizesText(ranges, b.sizes)});
  draft.addNumbers(a.model->draft);
  auto file = std::make_unique<GraphFile>();
  draft.write(outputs, file.get());
  file->decided = a.model->decided;
  file->sizeDims = sizeDimsOf(a, b);
  return file;
}

std::unique_ptr<GraphFile> fileOf(ImportedModel *model) {
  auto file = std::make_unique<GraphFile>();
  model->draft.write(model->outputs, file.get());
  file->decided = std::move(model->decided);
  file->isUnbound = model->isUnbound;
  return file;
}

} // namespace

std::unique_ptr<GraphFile> importedForSizes(const ParsedModel &parsed, const Registry &registry,
                                            const ImportRequest &request, std::vector<Diagnostic> *diagnostics) {
  if (request.sizes.empty()) {
    auto model = importOnce(parsed, registry, request, diagnostics);
    return model ? fileOf(&*model) : nullptr;
  }
  const std::vector<SizeRange> &ranges = request.sizes.sizes;
  std::vector<Look> looks;
  for (const Sizes &sizes : sizesToImport(ranges)) {
    Look look = lookAt(parsed, registry, request, sizes);
    bool isWithin = true;
    for (size_t i = 0; i < ranges.size(); ++i) isWithin &= sizes[i] <= ranges[i].max;
    if (looks.empty() || (isWithin && !look.model))
      diagnostics->insert(diagnostics->end(), look.diagnostics.begin(), look.diagnostics.end());
    if (isWithin && !look.model) return nullptr;
    if (look.model && look.model->isUnbound) return fileOf(&*look.model);
    if (look.model) looks.push_back(std::move(look));
  }
  // Two that agree but for what can be said without a number: at one size shapes may be equal by chance.
  SizesRefusal first{"", "beyond its largest size the model has no meaning, and the range has no other"};
  for (size_t b = looks.size(); b-- > 1;)
    for (size_t a = b; a-- > 0;) try {
        return merged(registry, ranges, looks[a], looks[b]);
      } catch (const SizesRefusal &r) {
        first = r;
      } catch (const Refusal &r) {
        first = {"", r.message};
      }
  Diagnostic d;
  d.code = "OPC0220";
  d.message = first.message;
  d.help =
      "a graph for a range has no number that follows from a size, but for shapes that its ops find by themselves; "
      "compile the model for one size";
  d.range.file = first.place.empty() ? request.name : first.place;
  diagnostics->push_back(std::move(d));
  return nullptr;
}

} // namespace opc::onnx
