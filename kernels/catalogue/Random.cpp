// Random numbers that a model draws, and dropout, which draws its mask.
#include "kernels/catalogue/Checker.h"
#include "kernels/catalogue/Entry.h"

namespace mt::kernels {
namespace {

using Kind = AttributeSpec::Kind;

/// Row numbers, scalars and the node's number from operand `rows` on, and the ratio, for elements like the result's.
void checkDraw(Checker &c, const Signature &call, int rows, int result) {
  const double ratio = call.real("ratio");
  const int64_t outer = call.integer("outer", 1);
  c.type(rows, DType::i64).rank(rows, 1).scalars(rows + 1).type(rows + 2, DType::i64).dims(rows + 2, {});
  c.require(ratio >= 0 && ratio <= 1, "attribute ratio must be between 0 and 1")
      .require(outer > 0, "attribute outer must be positive");
  c.then([&](Checker &d) {
    const OperandType &numbers = d.at(rows);
    d.require(!numbers.present || (outer <= d.at(result).elements() && d.at(result).elements() % outer == 0 &&
                                   d.at(result).elements() / outer % numbers.dims[0] == 0),
              "the elements are not so many for each row");
  });
}

std::string checkDropout(const Signature &call) {
  Checker checker(call);
  checker.floating(0).like(4, 0);
  checkDraw(checker, call, 1, 0);
  return checker.result();
}

std::string checkRandom(const Signature &call) {
  Checker checker(call);
  checker.floating(3);
  checkDraw(checker, call, 0, 3);
  return checker.result();
}

constexpr std::string_view kPlace = "the elements lie as [outer, rows, inner]; default 1";
constexpr AttributeSpec kDropout[] = {{"ratio", Kind::real, true, "", "of the elements that are dropped"},
                                      {"outer", Kind::integer, false, "", kPlace}};
constexpr AttributeSpec kRandom[] = {{"kind", Kind::choice, true, "uniform|normal|keep", "which numbers"},
                                     {"ratio", Kind::real, false, "", "of keep: of the elements that are 0; default 0"},
                                     {"outer", Kind::integer, false, "", kPlace}};

} // namespace

std::span<const Kernel> randomKernels() {
  static const std::vector<Kernel> kernels = {
      entry("dropout", "operand rows? scalars node -> result+", "Zeros at random, the rest scaled up.",
            "w < ratio * 2^32 ? 0 : x / (1 - ratio), w the element's word; x where scalars[kDraw] is not positive. "
            "Words as "
            "of random; the same operation on the result's gradient is the operand's gradient. Srivastava et al., JMLR "
            "15, 2014",
            flopsPerResult, checkDropout, {.attributes = kDropout}),
      entry("random", "rows? scalars node -> result+", "Random numbers.",
            "w = word e % 4 of Philox4x32-10 (Salmon et al., SC 2011) with key scalars[kSeed] of the counter (e / 4 in "
            "64 "
            "bits, scalars[kDraw], node), e the element's number: (rows[r] * outer + o) * inner + i of element [o, r, "
            "i], "
            "its place without rows. uniform: (w >> 8) / 2^24. keep: w >= ratio * 2^32, and 1 where scalars[kDraw] is "
            "not "
            "positive. normal, of w and the next word v of an even e: sqrt(-2 ln u) cos(2 pi v / 2^32), u = w / 2^32 + "
            "2^-33 in 32 bits; of an odd one, of the word before and w, with the sine (Box and Muller 1958); "
            "kernels/Random.h has "
            "the polynomials",
            flopsPerResult, checkRandom, {.attributes = kRandom})};
  return kernels;
}

} // namespace mt::kernels
