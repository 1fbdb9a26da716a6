#include "runtime/tokenizer/Viterbi.h"

#include "runtime/tokenizer/Unicode.h"

namespace mt::tokenizer {

double Viterbi::run(std::string_view text, double sum, Scratch &scratch) const {
  constexpr uint32_t kNowhere = UINT32_MAX;
  std::vector<BestEnd> &ends = scratch.ends;
  ends.assign(text.size() + 1, {0, 0, kNowhere});
  ends[0].score = sum;
  for (size_t begin = 0, length = 0; begin < text.size(); begin += length) {
    length = std::min(lengthOf(text[begin]), text.size() - begin);
    double before = ends[begin].score;
    auto offer = [&](size_t bytes, uint32_t id, double score) {
      BestEnd &end = ends[begin + bytes];
      double reached = score + before;
      if (single)
        reached = static_cast<double>(static_cast<float>(reached));
      if (end.begin == kNowhere || reached > end.score)
        end = {reached, id, static_cast<uint32_t>(begin)};
    };
    bool known = false;
    pieces.each(text.substr(begin), [&](size_t bytes, uint32_t id) {
      offer(bytes, id, scores[id]);
      known |= bytes == length;
    });
    if (!known)
      offer(length, unknownId, unknownScore);
  }
  return ends[text.size()].score;
}

} // namespace mt::tokenizer
