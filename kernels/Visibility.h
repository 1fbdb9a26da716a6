// Which keys a query of attention sees by position alone: distance, dilation, prefix and chunk, as the catalogue states
// them. Used on the host, where blocks without any are left out, and in device code.
#ifndef MT_KERNELS_VISIBILITY_H
#define MT_KERNELS_VISIBILITY_H

#include <cstdint>

#ifdef __CUDACC__
#define MT_BOTH_SIDES __host__ __device__
#else
#define MT_BOTH_SIDES
#endif

namespace mt::kernels {

struct Signature;

/// Keys [begin, end).
struct KeyInterval {
  int64_t begin = 0, end = 0;
};

struct Visibility {
  int64_t keys = 0, low = 0, high = 0, offset = 0, prefix = 0, chunk = 0, dilation = 1;

  /// Of a call of attention or attention_grad over so many keys.
  static Visibility of(const Signature &call, int64_t keys);

  MT_BOTH_SIDES bool sees(int64_t query, int64_t key) const {
    int64_t distance = query - key + offset;
    bool near = (low <= distance && distance <= high && (dilation == 1 || distance % dilation == 0)) || key < prefix;
    return near && (chunk == 0 || query / chunk == key / chunk);
  }

  /// Whether some of so many queries do not see the first key for its distance; or some query the last one.
  bool hidesEarly(int64_t queries) const { return high - offset < queries - 1; }
  bool hidesLate() const { return offset - low < keys - 1; }

  /// The smallest interval that holds all keys that any of the queries [query, query + count) sees; empty if none.
  KeyInterval hull(int64_t query, int64_t count) const;

private:
  KeyInterval seen(int64_t query) const;
};

} // namespace mt::kernels
#endif
