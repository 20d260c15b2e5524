// An ONNX model for sizes in a range: imported at several of them, and one graph made of what it becomes.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxNames.h"
#include "OnnxSizes.h"

#include <algorithm>

namespace opc::onnx {
namespace {

using Sizes = std::vector<int64_t>;

/// Nothing is looked at below it where there is more: what has one row becomes other ops.
int64_t leastOf(const SizeRange &r) { return std::max<int64_t>(r.min, std::min<int64_t>(2, r.max)); }

/// The size, or one near it that no other range has, as far as the range has one.
int64_t unlike(const Sizes &others, const SizeRange &r, int64_t size) {
  const auto isFree = [&](int64_t n) { return std::find(others.begin(), others.end(), n) == others.end(); };
  const auto most = static_cast<int64_t>(others.size());
  for (int64_t away = 0; away <= most; ++away)
    for (const int64_t n : {size - away, size + away})
      if (n >= leastOf(r) && n <= r.max && isFree(n)) return n;
  return size;
}

/// Sizes of which two become the graph: near the largest, inside, and beside the range where that has too few. No two
/// ranges have the same one, as far as they can: sizes are told apart by it.
std::vector<Sizes> sizesToImport(const std::vector<SizeRange> &ranges) {
  std::vector<Sizes> list(3);
  int64_t step = 0;
  for (const SizeRange &r : ranges) {
    const int64_t least = leastOf(r), length = r.max - least;
    const bool isLong = length > step + 6;
    const auto add = [&](size_t k, int64_t size) { list[k].push_back(size > r.max ? size : unlike(list[k], r, size)); };
    add(0, isLong ? r.max - 1 - step : r.max);
    add(1, isLong ? least + length / 2 : length > 0 ? least : r.max + 1 + step);
    add(2, isLong ? least + length / 3 : r.max + 3 + 2 * step);
    ++step;
  }
  return list;
}

/// Sizes at which the graph must be what the model is there, since at the first ones numbers may agree by chance: a
/// minimum of a size and 5 at sizes above 5, two sizes of which one is always the larger. All of a short range; of
/// others small ones, the ends, and the sizes in another order, or equal.
std::vector<Sizes> sizesToCheck(const std::vector<SizeRange> &ranges) {
  std::vector<Sizes> list;
  const auto add = [&](auto sizeOf) {
    Sizes sizes;
    for (size_t i = 0; i < ranges.size(); ++i)
      sizes.push_back(std::clamp(sizeOf(ranges[i], static_cast<int64_t>(i)), leastOf(ranges[i]), ranges[i].max));
    if (std::find(list.begin(), list.end(), sizes) == list.end()) list.push_back(std::move(sizes));
  };
  constexpr int64_t kAll = 16;
  const auto count = static_cast<int64_t>(ranges.size());
  if (count == 1 && ranges[0].max - leastOf(ranges[0]) < kAll) {
    for (int64_t n = leastOf(ranges[0]); n <= ranges[0].max; ++n) add([n](const SizeRange &, int64_t) { return n; });
    return list;
  }
  add([](const SizeRange &r, int64_t) { return leastOf(r); });
  add([](const SizeRange &r, int64_t) { return r.max; });
  for (const int64_t n : {3, 5, 8}) add([n](const SizeRange &, int64_t) { return n; });
  add([count](const SizeRange &r, int64_t i) {
    return leastOf(r) + 1 + 2 * i + (r.max - leastOf(r)) * (i + 1) / (count + 2);
  });
  add([count](const SizeRange &r, int64_t i) { return r.max - 1 - 3 * i - (r.max - leastOf(r)) * i / (count + 1); });
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
  bool hasOne = false; // a size of 1, with which other ops may compute the same
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

SizedModel sizedOf(const std::vector<SizeRange> &ranges, const Look &look) {
  return {&look.model->draft, &look.model->outputs, sizesText(ranges, look.sizes)};
}

std::unique_ptr<GraphFile> merged(const Registry &registry, const std::vector<SizeRange> &ranges, const Look &a,
                                  const Look &b) {
  GraphDraft draft(registry);
  const NamedTerms outputs = mergeSizes(&draft, sizedOf(ranges, a), sizedOf(ranges, b));
  draft.addNumbers(a.model->draft);
  auto file = std::make_unique<GraphFile>();
  draft.write(outputs, file.get());
  file->decided = a.model->decided;
  file->sizeDims = sizeDimsOf(a, b);
  return file;
}

/// Throws SizesRefusal where the model is something else than the graph that `a` has become part of.
void checkAgainst(const Registry &registry, const std::vector<SizeRange> &ranges, const Look &a,
                  const std::vector<Look> &checks) {
  for (const Look &look : checks) {
    bool isWithin = true; // those beside the range may be what they are
    for (size_t i = 0; i < ranges.size(); ++i) isWithin &= look.sizes[i] <= ranges[i].max;
    if (!isWithin) continue;
    if (look.model->draft.branches() != a.model->draft.branches()) {
      const std::vector<std::string> &one = a.model->draft.branches(), &other = look.model->draft.branches();
      const auto [at, place] = std::mismatch(one.begin(), one.end(), other.begin(), other.end());
      throw SizesRefusal{"", "which branch of an If is computed depends on the sizes (" +
                                 (at == one.end() ? "" : *at + " with ") + sizesText(ranges, a.sizes) + ", " +
                                 (place == other.end() ? "" : *place + " with ") + sizesText(ranges, look.sizes) + ")"};
    }
    GraphDraft scratch(registry);
    try {
      mergeSizes(&scratch, sizedOf(ranges, a), sizedOf(ranges, look));
    } catch (const SizesRefusal &r) {
      if (r.in == SizesRefusal::In::kNumbers || (r.in == SizesRefusal::In::kAttributes && !look.hasOne)) throw;
    }
  }
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
  // Where the model has no meaning a run refuses the size.
  std::vector<Look> checks;
  const auto check = [&](const Sizes &sizes, bool hasOne) {
    const bool isKnown = std::any_of(looks.begin(), looks.end(), [&](const Look &l) { return l.sizes == sizes; });
    Look look = isKnown ? Look{} : lookAt(parsed, registry, request, sizes);
    look.hasOne = hasOne;
    if (look.model) checks.push_back(std::move(look));
  };
  for (const Sizes &sizes : sizesToCheck(ranges)) check(sizes, false);
  for (size_t i = 0; i < ranges.size(); ++i) {
    Sizes sizes = looks[0].sizes;
    sizes[i] = 1;
    if (ranges[i].min <= 1 && ranges[i].max > 1) check(sizes, true);
  }
  // Two that agree but for what can be said without a number: at one size shapes may be equal by chance.
  SizesRefusal first{"", "beyond its largest size the model has no meaning, and the range has no other"};
  for (size_t b = looks.size(); b-- > 1;)
    for (size_t a = b; a-- > 0;) try {
        std::unique_ptr<GraphFile> file = merged(registry, ranges, looks[a], looks[b]);
        for (const size_t one : {a, b}) {
          checkAgainst(registry, ranges, looks[one], looks);
          checkAgainst(registry, ranges, looks[one], checks);
        }
        return file;
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
