#include "millrace/trainer/tensor/kept_values.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "millrace/trainer/tensor/kernels.h"

namespace millrace::kept_values_test {
namespace {

// The nearest by trying the two neighbours.
uint16_t nearest_bfloat16(float value) {
  if (std::isnan(value)) return 0x7fc0;
  const auto of = [](uint32_t bits) { return static_cast<double>(std::bit_cast<float>(bits << 16)); };
  const uint32_t below = std::bit_cast<uint32_t>(value) >> 16;
  // Beyond the largest number the neighbour is infinite; it is nearer from half a step on, as if it were 2^128.
  const auto place = [&](uint32_t bits) {
    return std::isinf(of(bits)) && std::isfinite(value) ? std::copysign(std::ldexp(1.0, 128), value) : of(bits);
  };
  const double to_below = std::abs(static_cast<double>(value) - place(below));
  const double to_above = std::abs(static_cast<double>(value) - place(below + 1));
  if (std::isinf(value) || to_below < to_above) return static_cast<uint16_t>(below);
  if (to_above < to_below) return static_cast<uint16_t>(below + 1);
  return static_cast<uint16_t>(below % 2 == 0 ? below : below + 1);
}

template <typename T>
void expect_nearest(const std::vector<float>& floats) {
  const std::vector<T> values(floats.begin(), floats.end());
  std::vector<uint16_t> rounded(values.size() + 1, 7);
  std::vector<T> back(values.size() + 1, 7);
  const auto count = static_cast<int64_t>(values.size());
  kernels<T>().to_bfloat16(values.data(), count, rounded.data());
  kernels<T>().from_bfloat16(rounded.data(), count, back.data());
  for (size_t i = 0; i < floats.size(); ++i) {
    ASSERT_EQ(rounded[i], nearest_bfloat16(floats[i])) << floats[i];
    const auto expected = std::bit_cast<float>(static_cast<uint32_t>(rounded[i]) << 16);
    if (std::isnan(floats[i])) {
      ASSERT_TRUE(std::isnan(back[i]));
    } else {
      ASSERT_EQ(back[i], static_cast<T>(expected));
    }
  }
  EXPECT_EQ(rounded.back(), 7);
  EXPECT_EQ(back.back(), 7);
}

TEST(KeptValues, AreRoundedToTheNearestBfloat16TiesToEvenForEveryLength) {
  std::vector<float> values = {0,
                               -0.0F,
                               1,
                               -1.5F,
                               std::bit_cast<float>(0x3f808000U),  // ties, to even below and above
                               std::bit_cast<float>(0x3f818000U),
                               std::bit_cast<float>(0x3f808001U),
                               std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::denorm_min(),
                               INFINITY,
                               -INFINITY,
                               NAN,
                               std::bit_cast<float>(0x7fffffffU),  // NaNs that adding to would make numbers
                               std::bit_cast<float>(0xffffffffU)};
  uint32_t state = 1;
  while (values.size() < 2000) values.push_back(std::bit_cast<float>(state = state * 1664525U + 1013904223U));
  expect_nearest<float>(values);
  expect_nearest<double>(values);
  for (size_t length = 0; length < 40; ++length) expect_nearest<float>({values.begin(), values.begin() + length});
}

template <typename T>
class KeptValuesOf : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(KeptValuesOf, Types);

TYPED_TEST(KeptValuesOf, ComeBackAsTheyWereOrRoundedAndTakeTheMemoryOfTheirStorage) {
  ParameterLayout layout;
  layout.add("a", {1});
  layout.finish();
  const TypeParam weight = 0;
  TypeParam gradient = 0;
  for (const ActivationStorage storage : {ActivationStorage::kFull, ActivationStorage::kBfloat16}) {
    Arena arena;
    Tape<TypeParam> tape(arena);
    tape.begin(layout, &weight, {.values = &gradient, .storage = storage});
    const KeptValues<TypeParam> kept(tape, 300);
    {
      KeptWindow<TypeParam> window(arena, kept, 100);
      for (int64_t part = 0; part < 3; ++part) {
        TypeParam* values = window.place(100 * part);
        for (int64_t i = 0; i < 100; ++i) values[i] = static_cast<TypeParam>(100 * part + i) / 7;
        window.keep();
        EXPECT_EQ(values[99], static_cast<TypeParam>(100 * part + 99) / 7);
      }
    }
    KeptWindow<TypeParam> window(arena, kept, 100);
    bool rounded = false;
    for (const int64_t part : {2, 0, 1}) {
      const TypeParam* values = window.values(100 * part);
      for (int64_t i = 0; i < 100; ++i) {
        const TypeParam expected = static_cast<TypeParam>(100 * part + i) / 7;
        rounded |= values[i] != expected;
        ASSERT_NEAR(values[i], expected, expected / 256);
      }
    }
    EXPECT_EQ(rounded, storage == ActivationStorage::kBfloat16);
  }
}

}  // namespace
}  // namespace millrace::kept_values_test
