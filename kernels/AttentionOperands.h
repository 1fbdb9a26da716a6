// Places of the operands of attention and of its gradient, in the order of the catalogue.
#ifndef MT_KERNELS_ATTENTIONOPERANDS_H
#define MT_KERNELS_ATTENTIONOPERANDS_H

#include <cstddef>

namespace mt::kernels {

struct AttentionOperands {
  size_t query, key, value, bias, keyMask, querySegment, keySegment, queryPlace, keyPlace, sink;
  size_t output, logsumexp;                  ///< results of attention, operands of its gradient
  size_t dquery, dkey, dvalue, dbias, dsink; ///< of the gradient alone
  static constexpr size_t kGradient = 0;     ///< of the gradient alone, before the query

  /// Of attention, or of attention_grad.
  explicit constexpr AttentionOperands(bool gradient)
      : query(gradient ? 1 : 0), key(query + 1), value(query + 2), bias(query + 3), keyMask(query + 4),
        querySegment(query + 5), keySegment(query + 6), queryPlace(query + 7), keyPlace(query + 8), sink(query + 9),
        output(query + 10), logsumexp(query + 11), dquery(query + 12), dkey(query + 13), dvalue(query + 14),
        dbias(query + 15), dsink(query + 16) {}
};

} // namespace mt::kernels
#endif
