#include "millrace/formats/columnar/packed_integers.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

namespace millrace::packed_integers_test {
namespace {

template <typename T>
class PackedIntegers : public testing::Test {
 protected:
  // Packs and unpacks in memory of exactly the sizes that are allowed, next to bytes that must stay. Returns the size.
  static size_t round_trip(const std::vector<T>& values) {
    constexpr auto kUntouched = std::byte{0xa5};
    const size_t most = most_packed_bytes(values.size(), sizeof(T));
    std::vector<std::byte> packed(most + 1, kUntouched);
    const size_t size = pack_integers(std::span<const T>(values), packed.data());
    EXPECT_LE(size, most);
    EXPECT_EQ(packed[most], kUntouched);
    const std::vector<std::byte> alone(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size));
    constexpr T kBehind = 77;
    std::vector<T> again(values.size() + 1, kBehind);
    EXPECT_EQ(unpack_integers(alone.data(), std::span<T>(again.data(), values.size())), size);
    EXPECT_EQ(again.back(), kBehind);
    again.pop_back();
    EXPECT_EQ(again, values);
    return size;
  }

  // `count` values that begin at `least`, the last of them `least + range`.
  static std::vector<T> spread(size_t count, T least, uint64_t range) {
    using Unsigned = std::make_unsigned_t<T>;
    std::vector<T> values(count, least);
    for (size_t i = 1; i < count; ++i) {
      values[i] = static_cast<T>(static_cast<Unsigned>(least) + static_cast<Unsigned>(range / count * i));
    }
    if (count > 1) values.back() = static_cast<T>(static_cast<Unsigned>(least) + static_cast<Unsigned>(range));
    return values;
  }
};

using Types = testing::Types<int32_t, int64_t>;
TYPED_TEST_SUITE(PackedIntegers, Types);

TYPED_TEST(PackedIntegers, TakeAsFewBytesAsTheLargestDifferenceNeeds) {
  constexpr size_t kSize = sizeof(TypeParam);
  const auto size_of_range = [](uint64_t range, TypeParam least) {
    return TestFixture::round_trip(TestFixture::spread(100, least, range));
  };
  for (const TypeParam least : {TypeParam{0}, TypeParam{-100}, std::numeric_limits<TypeParam>::min()}) {
    EXPECT_EQ(size_of_range(0, least), 1 + kSize);
    EXPECT_EQ(size_of_range(1, least), 1 + kSize + 100);
    EXPECT_EQ(size_of_range(255, least), 1 + kSize + 100);
    EXPECT_EQ(size_of_range(256, least), 1 + kSize + 200);
    EXPECT_EQ(size_of_range(65'535, least), 1 + kSize + 200);
  }
  if (kSize == 4) {
    EXPECT_EQ(size_of_range(65'536, -100), 401U);
    EXPECT_EQ(size_of_range(UINT32_MAX, std::numeric_limits<TypeParam>::min()), 401U);
  } else {
    EXPECT_EQ(size_of_range(65'536, -100), 409U);
    EXPECT_EQ(size_of_range(UINT32_MAX, -100), 409U);
    EXPECT_EQ(size_of_range(uint64_t{UINT32_MAX} + 1, -100), 801U);
    EXPECT_EQ(size_of_range(UINT64_MAX, std::numeric_limits<TypeParam>::min()), 801U);
  }
}

TYPED_TEST(PackedIntegers, StayAsTheyAreWherePackingIsNoShorter) {
  constexpr size_t kSize = sizeof(TypeParam);
  EXPECT_EQ(TestFixture::round_trip({}), 1U);
  EXPECT_EQ(TestFixture::round_trip({5}), 1 + kSize);
  EXPECT_EQ(TestFixture::round_trip({5, 5}), 1 + kSize);
  EXPECT_EQ(TestFixture::round_trip({5, 6}), kSize == 4 ? 1 + 4 + 2U : 1 + 8 + 2U);
}

// Any length, whatever a vector holds; the extremes in every place.
TYPED_TEST(PackedIntegers, ComeBackAtEveryLength) {
  for (size_t count = 1; count <= 70; ++count) {
    for (const uint64_t range : {uint64_t{0}, uint64_t{200}, uint64_t{60'000}, uint64_t{4'000'000'000}}) {
      std::vector<TypeParam> values = TestFixture::spread(count, -3, range);
      for (size_t turn = 0; turn < count; ++turn) {
        TestFixture::round_trip(values);
        std::rotate(values.begin(), values.begin() + 1, values.end());
      }
    }
  }
}

}  // namespace
}  // namespace millrace::packed_integers_test
