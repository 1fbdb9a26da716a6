// Rows out of an .npz: one array for each input of the plan, of the same name.
#include "runtime/train/CorpusForms.h"
#include "runtime/train/Npz.h"

#include <algorithm>

namespace mt::train {
namespace {

class ArrayCorpus : public Corpus {
public:
  ArrayCorpus(NpzFile file, const plan::Plan &plan) : file(std::move(file)), plan(plan) {}

  /// Finds an array for every input and nothing else.
  Status bind() {
    for (const plan::Input &input : plan.inputs) {
      arrays.push_back(nullptr);
      if (!input.isOfData())
        continue;
      arrays.back() = file.find(input.name);
      if (!arrays.back() && saysPlaces(plan, input))
        continue;
      MT_TRY(checkArray(input, arrays.back()));
    }
    for (const auto &[name, array] : file.arrays())
      if (std::find(arrays.begin(), arrays.end(), &array) == arrays.end())
        return fail("{}: array '{}' belongs to no input of the model, which wants {}", file.path(), name,
                    describeInputs(plan));
    return Status();
  }

  int64_t rows() const override { return count; }

  Status read(RowPlace place, std::span<std::byte *const> destinations) const override {
    for (size_t n = 0; n < arrays.size(); ++n) {
      if (!arrays[n])
        continue;
      const plan::Input &input = plan.inputs[n];
      const ArrayView &array = *arrays[n];
      int64_t elements = static_cast<int64_t>(array.data.size() / byteSize(array.type)) / count;
      const std::byte *from = array.data.data() + place.row * elements * static_cast<int64_t>(byteSize(array.type));
      MT_TRY(convert(array.type, from, input.type, destinations[n], elements)
                 .within(fmt::format("{}: array '{}', row {}", file.path(), input.name, place.row)));
      padRow(input, destinations[n], elements);
    }
    return Status();
  }

  std::string where(RowPlace place, size_t input, int64_t element) const override {
    std::string said = fmt::format("{}: array '{}', row {}", file.path(), plan.inputs[input].name, place.row);
    return plan.inputs[input].dims.size() > 1 ? fmt::format("{}, element {}", said, element) : said;
  }

private:
  Status checkArray(const plan::Input &input, const ArrayView *array) {
    if (!array)
      return fail("{}: no array '{}': the model wants {}", file.path(), input.name, describeInputs(plan));
    std::string found = fmt::format("{}: array '{}' is {} {}", file.path(), input.name, name(array->type),
                                    text(array->dims));
    if (!fits(input.dims, array->dims))
      return fail("{}, and the model wants rows of {} (a step takes {})", found,
                  text(std::span(input.dims).subspan(1)), text(input.dims));
    if (isFloat(array->type) && !isFloat(input.type))
      return fail("{}, and the model wants {}", found, name(input.type));
    int64_t rows = array->dims.front();
    if (rows == 0)
      return fail("{}: it has no rows", found);
    MT_TRY(checkPadding(input, static_cast<int64_t>(array->data.size() / byteSize(array->type)) / rows).within(file.path()));
    if (count != 0 && rows != count)
      return fail("{}, but other arrays have {} rows", found, count);
    count = rows;
    return Status();
  }

  /// Same dimensions but for the rows; of two-dimensional arrays a shorter row is padded.
  bool fits(const Dims &want, const Dims &have) const {
    if (want.size() != have.size())
      return false;
    if (want.size() == 2 && want[1] == plan.settings.sequence)
      return have[1] >= 1 && have[1] <= want[1];
    return std::equal(want.begin() + 1, want.end(), have.begin() + 1);
  }

  NpzFile file;
  const plan::Plan &plan;
  std::vector<const ArrayView *> arrays; ///< by input; null for scalars
  int64_t count = 0;
};

} // namespace

Result<CorpusPtr> openArrays(const std::string &file, const plan::Plan &plan) {
  MT_ASSIGN(NpzFile npz, NpzFile::open(file));
  auto corpus = std::make_unique<ArrayCorpus>(std::move(npz), plan);
  MT_TRY(corpus->bind());
  return CorpusPtr(std::move(corpus));
}

} // namespace mt::train
