#include "millrace/formats/fixed_length/reader.h"

#include <algorithm>

#include <fmt/format.h>

namespace millrace {

std::optional<Error> FixedLengthSplitter::refuse_size(uint64_t bytes) const {
  const auto refuse = [](std::string message) {
    return Error{.code = ErrorCode::kTruncated, .message = std::move(message)};
  };
  const auto& [record, header, footer] = format_;
  if (bytes < header || bytes - header < footer) {
    return refuse(fmt::format("a file of {} bytes has no room for a header of {} and a footer of {} bytes", bytes,
                              header, footer));
  }
  const uint64_t body = bytes - header - footer;
  if (body % record == 0) return std::nullopt;
  return refuse(fmt::format(
      "{} bytes between a header of {} and a footer of {} bytes are no whole number of records of {} bytes: "
      "{} are left over",
      body, header, footer, record, body % record));
}

std::optional<Error> FixedLengthSplitter::cut(std::span<char> bytes, bool last, size_t max_records, FilePlace& place,
                                              CutRecords& out) {
  if (has_passed_) return std::nullopt;  // it was the end
  if (std::max({format_.record_bytes, format_.header_bytes, format_.footer_bytes}) > max_record_bytes_) {
    return Error{
        .code = ErrorCode::kRecordTooLarge,
        .message = fmt::format("records of {} bytes, a header of {}, a footer of {}: none may have more than {}",
                               format_.record_bytes, format_.header_bytes, format_.footer_bytes, max_record_bytes_)};
  }
  if (place.offset < format_.header_bytes) {
    if (!last && bytes.size() < format_.header_bytes) return std::nullopt;
    if (bytes.size() < format_.header_bytes) return refuse_size(bytes.size());
    bytes = bytes.subspan(format_.header_bytes);
    place.offset = format_.header_bytes;
  }
  // Nobody knows that bytes are not the footer until those after them come.
  const uint64_t body = bytes.size() - std::min<uint64_t>(bytes.size(), format_.footer_bytes);
  const auto count = std::min<uint64_t>(body / format_.record_bytes, max_records);
  for (uint64_t i = 0; i < count; ++i) {
    out.payloads.emplace_back(bytes.data() + i * format_.record_bytes, format_.record_bytes);
    out.offsets.push_back(place.offset);
    place.offset += format_.record_bytes;
  }
  place.record += count;
  if (last && count == 0) return refuse_size(place.offset + bytes.size());
  return std::nullopt;
}

bool FixedLengthSplitter::pass(std::span<const char> bytes, bool last, FilePlace& place) {
  const bool begins_record = place.offset >= format_.header_bytes;
  place.offset += bytes.size();
  if (!last) return false;
  has_passed_ = true;
  if (begins_record && bytes.size() > format_.footer_bytes) ++place.record;
  return true;
}

}  // namespace millrace
