#include "millrace/tokenizer/multiplied_text.h"

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

void require_not_multiplied(size_t bytes_before, size_t bytes_after, std::string_view what) {
  constexpr size_t kMostBytes = size_t{64} << 20;
  if (bytes_after <= kMostBytes || bytes_after <= bytes_before) return;
  throw ErrorException(ErrorCode::kRecordTooLarge,
                       fmt::format("{} makes more than {} bytes of a text", what, kMostBytes));
}

}  // namespace millrace
