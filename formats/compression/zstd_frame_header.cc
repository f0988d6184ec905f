#include "millrace/formats/compression/zstd_frame_header.h"

#include <array>

#include "millrace/formats/compression/zstd_format.h"

namespace millrace {
namespace {

static_assert(kShardPromiseBytes <= ZstdFrameHeader::kMostBytes);

constexpr size_t kDescriptorAt = 4;

size_t dictionary_bytes(uint8_t descriptor) {
  constexpr std::array<size_t, 4> kBytes{0, 1, 2, 4};
  return kBytes[descriptor & 3];
}
bool is_single_segment(uint8_t descriptor) { return (descriptor & 0x20) != 0; }
size_t content_bytes(uint8_t descriptor) {
  const unsigned flag = descriptor >> 6;
  return flag > 0 ? size_t{1} << flag : is_single_segment(descriptor) ? 1 : 0;
}

}  // namespace

size_t ZstdFrameHeader::bytes_needed(std::span<const std::byte> begin) {
  if (begin.size() < sizeof(uint32_t)) return sizeof(uint32_t);
  const uint64_t magic = zstd_number(begin.first(sizeof(uint32_t)));
  if (is_skippable(magic)) {
    if (begin.size() < kSkippableHeaderBytes) return kSkippableHeaderBytes;
    const bool may_promise = magic == kShardMagic && zstd_number(begin.subspan(4, 4)) == kShardMark.size();
    return may_promise ? kShardPromiseBytes : kSkippableHeaderBytes;
  }
  if (magic != kZstdMagic) return sizeof(uint32_t);
  if (begin.size() <= kDescriptorAt) return kDescriptorAt + 1;
  const auto descriptor = std::to_integer<uint8_t>(begin[kDescriptorAt]);
  return kDescriptorAt + 1 + (is_single_segment(descriptor) ? 0 : 1) + dictionary_bytes(descriptor) +
         content_bytes(descriptor);
}

ZstdFrameHeader ZstdFrameHeader::parse(std::span<const std::byte> header) {
  const auto descriptor = std::to_integer<uint8_t>(header[kDescriptorAt]);
  ZstdFrameHeader parsed{.has_checksum = (descriptor & 4) != 0};
  size_t at = kDescriptorAt + 1;
  if (!is_single_segment(descriptor)) {
    const auto window = std::to_integer<uint8_t>(header[at++]);
    const uint64_t base = uint64_t{1} << (10 + (window >> 3));
    parsed.window = base + base / 8 * (window & 7);
  }
  parsed.dictionary = zstd_number(header.subspan(at, dictionary_bytes(descriptor)));
  at += dictionary_bytes(descriptor);
  if (const size_t size = content_bytes(descriptor); size > 0) {
    parsed.content = zstd_number(header.subspan(at, size)) + (size == 2 ? 256 : 0);
    if (is_single_segment(descriptor)) parsed.window = *parsed.content;
  }
  return parsed;
}

}  // namespace millrace
