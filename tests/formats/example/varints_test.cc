#include "millrace/formats/example/varints.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/instruction_sets.h"
#include "tests/support/sanitized.h"

namespace millrace::varints_test {
namespace {

template <typename T>
using Decoder = void (*)(VarintRun<T>&);

// A list of varints, its values, and where each begins.
struct List {
  std::vector<uint8_t> bytes;
  std::vector<uint64_t> values;
  std::vector<size_t> begins;

  void add(uint64_t value, size_t more_bytes = 0) {
    begins.push_back(bytes.size());
    values.push_back(value);
    for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<uint8_t>(value | 0x80));
    bytes.push_back(static_cast<uint8_t>(value));
    for (; more_bytes > 0; --more_bytes) {
      bytes.back() |= 0x80;
      bytes.push_back(0);
    }
  }
  size_t size_of(size_t i) const { return (i + 1 < begins.size() ? begins[i + 1] : bytes.size()) - begins[i]; }
};

// Runs the decoder over the list into room for `room` values, and checks all that varints.h promises.
template <typename T>
void expect_decodes(Decoder<T> decode, const List& list, size_t room) {
  constexpr T kUntouched = 0x5a5a5a5a;
  std::vector<T> out(room + 64, kUntouched);
  const std::vector<uint8_t> exact = list.bytes;  // sanitizers see every read beyond its end
  VarintRun<T> run{exact.data(), exact.data() + exact.size(), out.data(), out.data() + room};
  decode(run);
  const auto count = static_cast<size_t>(run.values - out.data());
  ASSERT_LE(count, std::min(room, list.values.size()));
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], static_cast<T>(list.values[i])) << i;
  ASSERT_EQ(run.at - exact.data(), count < list.begins.size() ? list.begins[count] : exact.size());
  for (size_t i = room; i < out.size(); ++i) ASSERT_EQ(out[i], kUntouched) << "wrote beyond the end";
  // It goes on as far as it says.
  if (count < list.values.size() && list.size_of(count) <= 4) {
    ASSERT_TRUE(room - count < 8 || exact.size() - list.begins[count] < 8) << "stopped at value " << count;
  }
}

template <typename T>
void expect_decodes_random_lists(Decoder<T> decode) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 1000; round += test::kStride) {
    List list;
    const uint64_t most_bits = 1 + random() % 28;
    const uint64_t longer_ones = random() % 4 == 0 ? 10 : 0;  // in a hundred
    for (uint64_t count = random() % (round % 4 == 0 ? 1000 : 200); count > 0; --count) {
      const uint64_t bits = random() % 100 < longer_ones ? 1 + random() % 64 : 1 + random() % most_bits;
      list.add(random() >> (64 - bits), random() % 50 == 0 ? random() % 3 : 0);
    }
    expect_decodes(decode, list, random() % 3 == 0 ? random() % (list.values.size() + 1) : list.values.size());
    if (::testing::Test::HasFatalFailure()) FAIL() << "round " << round;
  }
}

// Long lists of lengths that leave every number of bytes after their windows: of varints of one size, the last of
// another so that the bytes come out, with room for all values, for some fewer, and for many more.
template <typename T>
void expect_decodes_every_rest(Decoder<T> decode) {
  for (const size_t size : {1, 2, 3, 4}) {
    for (const auto& [first, last] : {std::pair<size_t, size_t>{500, 580}, {1010, 1080}, {1600, 1603}}) {
      for (size_t bytes = first; bytes <= last; ++bytes) {
        List list;
        while (bytes - list.bytes.size() >= size) list.add(uint64_t{1} << 7 * (size - 1) | list.bytes.size() % 100);
        if (bytes > list.bytes.size()) list.add(1, bytes - list.bytes.size() - 1);
        for (size_t less = 0; less < 10; less += test::kSanitized ? 3 : 1) {
          expect_decodes(decode, list, list.values.size() - less);
        }
        expect_decodes(decode, list, list.values.size() + 100);
        if (::testing::Test::HasFatalFailure()) FAIL() << bytes << " bytes, varints of " << size;
      }
    }
  }
}

// A varint of more than four bytes at every place of a list of short ones.
template <typename T>
void expect_stops_before_long_varints(Decoder<T> decode) {
  for (size_t size = 5; size <= 10; ++size) {
    for (size_t at = 0; at < 700; at += test::kStride) {
      List list;
      while (list.bytes.size() < at) list.add(1, at - list.bytes.size() >= 2 ? at % 2 : 0);
      list.add(uint64_t{1} << 7 * (size - 1));
      while (list.bytes.size() < 720) list.add(300);
      expect_decodes(decode, list, list.values.size() + 100);
      if (::testing::Test::HasFatalFailure()) FAIL() << size << " bytes at " << at;
    }
  }
}

TEST(Varints, ThePortableDecoderKeepsItsPromises) {
  test::for_each_instruction_set([] {
    expect_decodes_random_lists<int32_t>(decode_varints_portable);
    expect_decodes_random_lists<int64_t>(decode_varints_portable);
    expect_decodes_every_rest<int32_t>(decode_varints_portable);
    expect_decodes_every_rest<int64_t>(decode_varints_portable);
    expect_stops_before_long_varints<int32_t>(decode_varints_portable);
    expect_stops_before_long_varints<int64_t>(decode_varints_portable);
  });
}

TEST(Varints, TheAvx512DecoderKeepsItsPromises) {
  if (!has_avx512_varints()) GTEST_SKIP() << "this machine has no AVX-512 VBMI2";
  expect_decodes_random_lists<int32_t>(decode_varints_avx512);
  expect_decodes_random_lists<int64_t>(decode_varints_avx512);
  expect_decodes_every_rest<int32_t>(decode_varints_avx512);
  expect_decodes_every_rest<int64_t>(decode_varints_avx512);
  expect_stops_before_long_varints<int32_t>(decode_varints_avx512);
  expect_stops_before_long_varints<int64_t>(decode_varints_avx512);
}

TEST(Varints, AreCountedWithoutBeingDecoded) {
  std::mt19937_64 random(6);
  List list;
  while (list.bytes.size() < 400) list.add(random() >> (random() % 64), random() % 20 == 0 ? 1 : 0);
  test::for_each_instruction_set([&list] {
    for (size_t begin = 0; begin < 70; ++begin) {
      size_t ends = 0;
      for (size_t end = begin; end < list.bytes.size(); ++end) {
        const std::vector<uint8_t> exact(list.bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                                         list.bytes.begin() + static_cast<std::ptrdiff_t>(end));
        ASSERT_EQ(count_varints({reinterpret_cast<const char*>(exact.data()), exact.size()}), ends)
            << "bytes " << begin << " to " << end;
        ends += list.bytes[end] < 0x80 ? 1 : 0;
      }
    }
  });
}

TEST(Varints, ACutOffLastVarintIsLeftToTheCaller) {
  for (const Decoder<int32_t> decode : {Decoder<int32_t>(decode_varints), Decoder<int32_t>(decode_varints_portable)}) {
    for (const size_t count : {0, 1, 20, 63, 64, 100}) {
      std::vector<uint8_t> bytes(count, 1);
      bytes.push_back(0x80);
      std::vector<int32_t> out(count + 1);
      VarintRun<int32_t> run{bytes.data(), bytes.data() + bytes.size(), out.data(), out.data() + out.size()};
      decode(run);
      EXPECT_LE(run.values - out.data(), static_cast<int64_t>(count));
      EXPECT_EQ(run.at - bytes.data(), run.values - out.data());
    }
  }
}

}  // namespace
}  // namespace millrace::varints_test
