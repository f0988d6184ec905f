#include "millrace/ops/row_memory/streaming_copy.h"

#include <algorithm>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "millrace/formats/columnar/buffer.h"

namespace millrace::stream_row_test {
namespace {

TEST(StreamRowTest, RowsOfEveryLengthFromAnywhereLieBehindTheirHeader) {
  constexpr size_t kLine = 64;
  constexpr char kBefore = '#';
  BufferPool pool;
  const Buffer memory = pool.allocate(1024);
  auto* const slot = reinterpret_cast<char*>(memory->data());
  for (size_t length = 0; length <= 5 * kLine; ++length) {
    for (size_t offset = 0; offset < kLine; offset += 7) {
      std::string source(offset + length, '?');
      for (size_t i = 0; i < length; ++i) source[offset + i] = static_cast<char>(i * 5 + length);
      const std::string_view row = std::string_view(source).substr(offset);
      std::fill_n(slot, memory->capacity(), kBefore);
      const uint64_t header = 0x0123456789abcdef + length;
      stream_row(memory->data(), header, row);
      fence_streamed_rows();
      uint64_t written = 0;
      std::memcpy(&written, slot, sizeof written);
      ASSERT_EQ(written, header);
      ASSERT_EQ(std::string_view(slot + sizeof header, length), row) << length << " bytes from " << offset;
      const size_t lines = (sizeof header + length + kLine - 1) / kLine * kLine;
      ASSERT_TRUE(std::all_of(slot + lines, slot + memory->capacity(), [](char c) { return c == kBefore; }))
          << length << " bytes from " << offset;
    }
  }
}

}  // namespace
}  // namespace millrace::stream_row_test
