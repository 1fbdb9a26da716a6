// Oniguruma's regular expressions (Ruby's syntax, as tokenizer.json has them) in PCRE2's words. The two differ in what
// \s, \w and \b are, in possessive counts, in names of scripts, and in much that no tokenizer uses: that is refused by
// name.
#ifndef MT_RUNTIME_TOKENIZER_REGEXDIALECT_H
#define MT_RUNTIME_TOKENIZER_REGEXDIALECT_H

#include "runtime/base/Status.h"

#include <string>
#include <string_view>

namespace mt::tokenizer {

/// The same expression for PCRE2 with PCRE2_UTF, PCRE2_UCP and PCRE2_MULTILINE; it has no groups that capture. Errors
/// quote the part that is not supported.
Result<std::string> translateRegex(std::string_view expression);

} // namespace mt::tokenizer
#endif
