#include "millrace/formats/records/whole_file_splitter.h"

#include <fmt/format.h>

namespace millrace {

std::optional<Error> WholeFileSplitter::refuse_size(uint64_t bytes) const {
  if (bytes <= max_bytes_) return std::nullopt;
  return Error{.code = ErrorCode::kRecordTooLarge,
               .message = fmt::format("the file has {} bytes, more than {}", bytes, max_bytes_)};
}

std::optional<Error> WholeFileSplitter::cut(std::span<char> bytes, bool last, size_t /*max_records*/, FilePlace& place,
                                            CutRecords& out) {
  if (place.record > 0) return std::nullopt;
  if (std::optional<Error> error = refuse_size(bytes.size())) return error;
  if (!last) return std::nullopt;
  out.payloads.emplace_back(bytes.data(), bytes.size());
  out.offsets.push_back(0);
  place = {.offset = bytes.size(), .record = 1};
  return std::nullopt;
}

bool WholeFileSplitter::pass(std::span<const char> bytes, bool last, FilePlace& place) {
  place.offset += bytes.size();
  if (last) place.record = 1;
  return last;
}

}  // namespace millrace
