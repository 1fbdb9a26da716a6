// The ids that a tokenizer.json puts before and after a sequence ("post_processor").
#ifndef MT_RUNTIME_TOKENIZER_POSTPROCESSOR_H
#define MT_RUNTIME_TOKENIZER_POSTPROCESSOR_H

#include "runtime/tokenizer/Fields.h"

namespace mt::tokenizer {

struct Surroundings {
  std::vector<uint32_t> before, after;
};

/// Adds those of a post-processor around what is there. Errors name what is wrong or not supported.
Status readPostProcessor(const Fields &fields, Surroundings &all);

} // namespace mt::tokenizer
#endif
