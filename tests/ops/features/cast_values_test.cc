#include "millrace/ops/features/cast_values.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/instruction_sets.h"

namespace millrace::cast_values_test {
namespace {

template <typename FromType, typename ToType>
struct Pair {
  using From = FromType;
  using To = ToType;
};

// What a cast means, without vectors and without `fits`: false where `to` stays 0.
template <typename From, typename To>
bool cast_one(From value, To& to) {
  to = 0;
  if constexpr (std::is_floating_point_v<From>) {
    const double whole = std::trunc(static_cast<double>(value));
    const double limit = std::ldexp(1.0, std::numeric_limits<To>::digits);
    if (std::isnan(whole) || whole < (std::is_signed_v<To> ? -limit : 0) || whole >= limit) return false;
  } else if constexpr (sizeof(To) < sizeof(From) && std::is_integral_v<To>) {
    if (value != static_cast<From>(static_cast<To>(value))) return false;
  }
  to = static_cast<To>(value);
  return true;
}

template <typename From>
std::vector<From> special_values() {
  std::vector<From> values;
  const auto both = [&](From value) { values.insert(values.end(), {value, static_cast<From>(-value)}); };
  if constexpr (std::is_floating_point_v<From>) {
    using Limits = std::numeric_limits<From>;
    for (const From value :
         {From{0}, Limits::denorm_min(), Limits::min() / 2, Limits::min(), 0.5F, 0x1.fffffep-1F, 1.5F, 2.5F,
          0x1.fffffep22F, 0x1p24F, Limits::max(), Limits::infinity(), Limits::quiet_NaN()}) {
      both(value);
    }
    for (const From limit : {0x1p31F, 0x1p32F, 0x1p53F, 0x1p63F, 0x1p64F}) {
      both(std::nextafter(limit, From{0}));
      both(limit);
      both(std::nextafter(limit, Limits::infinity()));
    }
    for (const From value : {255.0F, 255.99F, 256.0F, 0.99F}) both(value);
    values.push_back(std::bit_cast<float>(0x7f800001U));  // a signaling NaN
  } else {
    using Limits = std::numeric_limits<From>;
    values = {0, Limits::min(), Limits::min() + 1, Limits::max() - 1, Limits::max()};
    for (const int value : {1, 127, 128, 255}) both(static_cast<From>(value));
    if constexpr (sizeof(From) > 1) {
      both(256);
      // Halves of what float keeps, and their neighbours; double keeps some of those that float does not.
      for (const int bit : {24, 25, 30, 31, 32, 33, 53, 54, 62}) {
        if (bit >= Limits::digits) break;
        const From power = From{1} << bit;
        const From half = From{1} << (bit - 24);
        for (const From off : {From{0}, From{1}, half, From{3} * half}) {
          for (const From value : {power + off - 1, power + off, power + off + 1}) both(value);
        }
      }
    }
  }
  return values;
}

// Casts the values on every instruction set into a place with something after it.
template <typename From, typename To>
void expect_casts(const std::vector<From>& values) {
  constexpr To kBehind = 77;
  std::vector<To> expected(values.size() + 1, kBehind);
  bool all_fit = true;
  for (size_t i = 0; i < values.size(); ++i) all_fit = cast_one(values[i], expected[i]) && all_fit;
  std::vector<To> cast(values.size() + 1, kBehind);
  ASSERT_EQ(cast_values(std::span(values), std::span(cast).first(values.size())), all_fit)
      << values.size() << " values";
  for (size_t i = 0; i < cast.size(); ++i) {
    ASSERT_EQ(std::memcmp(&cast[i], &expected[i], sizeof(To)), 0)
        << "value " << i << " of " << values.size() << ": " << +cast[i] << ", not " << +expected[i];
  }
}

// Values that fit, with fractions where there are some.
template <typename From, typename To>
std::vector<From> plain_values(size_t count) {
  std::vector<From> values(count);
  for (size_t i = 0; i < count; ++i) {
    const auto number = static_cast<double>(i);
    values[i] = static_cast<From>(sizeof(From) == 1 || sizeof(To) == 1 ? 3.25 * number : (number - 30) * 12345.25);
  }
  return values;
}

template <typename P>
class CastValuesTest : public ::testing::Test {};
using Pairs =
    ::testing::Types<Pair<int32_t, int64_t>, Pair<int32_t, float>, Pair<int64_t, int32_t>, Pair<int64_t, float>,
                     Pair<float, int32_t>, Pair<float, int64_t>, Pair<uint8_t, int32_t>, Pair<uint8_t, int64_t>,
                     Pair<uint8_t, float>, Pair<int32_t, uint8_t>, Pair<int64_t, uint8_t>, Pair<float, uint8_t>>;
TYPED_TEST_SUITE(CastValuesTest, Pairs);

constexpr size_t kMost = 70;

TYPED_TEST(CastValuesTest, PlainValuesOfEveryCountComeOutAsOneByOne) {
  using From = typename TypeParam::From;
  test::for_each_instruction_set([] {
    for (size_t count = 0; count <= kMost; ++count) {
      ASSERT_NO_FATAL_FAILURE(
          (expect_casts<From, typename TypeParam::To>(plain_values<From, typename TypeParam::To>(count))));
    }
  });
}

TYPED_TEST(CastValuesTest, ASpecialValueInEveryPlaceAmongPlainOnesComesOutAsAlone) {
  using From = typename TypeParam::From;
  test::for_each_instruction_set([] {
    constexpr size_t kCount = 40;  // two of the widest vectors and a rest
    for (const From special : special_values<From>()) {
      for (size_t place = 0; place < kCount; ++place) {
        std::vector<From> values = plain_values<From, typename TypeParam::To>(kCount);
        values[place] = special;
        ASSERT_NO_FATAL_FAILURE((expect_casts<From, typename TypeParam::To>(values)));
      }
    }
  });
}

TYPED_TEST(CastValuesTest, SpecialValuesNextToEachOtherOfEveryCountComeOutAsAlone) {
  using From = typename TypeParam::From;
  const std::vector<From> specials = special_values<From>();
  test::for_each_instruction_set([&] {
    for (size_t first = 0; first < specials.size(); ++first) {
      std::vector<From> values;
      for (size_t count = 0; count <= kMost; ++count) {
        ASSERT_NO_FATAL_FAILURE((expect_casts<From, typename TypeParam::To>(values)));
        values.push_back(specials[(first + count) % specials.size()]);
      }
    }
  });
}

// Among its like, among values that fit, and among some that may not.
template <typename From, typename To>
void expect_cast(From value, To to) {
  test::for_each_instruction_set([&] {
    for (const From next_to : {value, From{1}, std::numeric_limits<From>::max()}) {
      std::vector<From> values(kMost, next_to);
      values[3] = value;
      std::vector<To> cast(kMost);
      (void)cast_values(std::span<const From>(values), std::span<To>(cast));
      ASSERT_EQ(cast[3], to) << value;
    }
  });
}

TEST(CastOneValueTest, FloatsAreRoundedOnceToTheNearestAndHalvesToEven) {
  expect_cast<int32_t, float>((1 << 24) + 1, 0x1p24F);
  expect_cast<int32_t, float>((1 << 24) + 3, 0x1.000004p24F);
  expect_cast<int32_t, float>(-(1 << 24) - 1, -0x1p24F);
  expect_cast<int32_t, float>(std::numeric_limits<int32_t>::max(), 0x1p31F);
  expect_cast<int64_t, float>((1 << 24) + 1, 0x1p24F);
  expect_cast<int64_t, float>((1 << 24) + 3, 0x1.000004p24F);
  expect_cast<int64_t, float>((int64_t{1} << 53) + 1, 0x1p53F);
  // By way of double this would be half of a step, and so 2^54.
  expect_cast<int64_t, float>((int64_t{1} << 54) + (int64_t{1} << 30) + 1, 0x1.000002p54F);
  expect_cast<int64_t, float>(std::numeric_limits<int64_t>::max(), 0x1p63F);
  expect_cast<int64_t, float>(std::numeric_limits<int64_t>::min(), -0x1p63F);
}

TEST(CastOneValueTest, IntegersAreCutTowardsZeroAndTheLimitsAreExact) {
  expect_cast<float, int32_t>(-2.75F, -2);
  expect_cast<float, int64_t>(-0.9F, 0);
  expect_cast<float, int32_t>(-0x1p31F, std::numeric_limits<int32_t>::min());
  expect_cast<float, int32_t>(0x1.fffffep30F, 2147483520);
  expect_cast<float, int32_t>(0x1p31F, 0);
  expect_cast<float, int64_t>(-0x1p63F, std::numeric_limits<int64_t>::min());
  expect_cast<float, int64_t>(0x1.fffffep62F, 9223371487098961920);
  expect_cast<float, int64_t>(0x1p63F, 0);
  expect_cast<int64_t, int32_t>(std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::max());
  expect_cast<int64_t, int32_t>(int64_t{std::numeric_limits<int32_t>::max()} + 1, 0);
  expect_cast<int64_t, int32_t>(int64_t{std::numeric_limits<int32_t>::min()} - 1, 0);
  expect_cast<int64_t, int32_t>(int64_t{1} << 32, 0);
}

}  // namespace
}  // namespace millrace::cast_values_test
