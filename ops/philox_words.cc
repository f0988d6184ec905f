// Compiled once for each instruction set that Highway knows here; see HWY_EXPORT at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/philox_words.cc"
#include "ops/philox_words.h"

#include <cstring>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

void PhiloxWords(uint32_t key0, uint32_t key1, uint64_t ordinal, size_t num_draws, uint32_t* HWY_RESTRICT words) {
  for (size_t draw = 0; draw < num_draws; ++draw) {
    const CounterRng::Words random = CounterRng::philox(ordinal, draw, {key0, key1});
    for (size_t i = 0; i < random.size(); ++i) words[4 * draw + i] = random[i];
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;

// Philox4x32-10 (Salmon et al. 2011) on as many counters at once as a vector has 64-bit lanes, and four such vectors
// side by side, since each round waits for the multiply of the one before. A lane holds a 32-bit word in its low half,
// so that one widening multiply gives both halves of a product; multiplies do not see what is left in the high half.
void PhiloxWords(uint32_t key0, uint32_t key1, uint64_t ordinal, size_t num_draws, uint32_t* HWY_RESTRICT words) {
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> d32;
  const size_t lanes = hn::Lanes(d);
  const auto low_half = hn::Set(d, 0xffffffffULL);
  const auto multiplier0 = hn::BitCast(d32, hn::Set(d, 0xD2511F53ULL));
  const auto multiplier1 = hn::BitCast(d32, hn::Set(d, 0xCD9E8D57ULL));
  const auto next_round = [&](auto k0, auto k1, auto& c0, auto& c1, auto& c2, auto& c3) HWY_ATTR {
    const auto product0 = hn::MulEven(hn::BitCast(d32, c0), multiplier0);
    const auto product1 = hn::MulEven(hn::BitCast(d32, c2), multiplier1);
    c0 = hn::Xor(hn::ShiftRight<32>(product1), hn::Xor(c1, k0));
    c2 = hn::Xor(hn::ShiftRight<32>(product0), hn::Xor(c3, k1));
    c1 = product1;
    c3 = product0;
  };
  const auto store = [&](size_t draw, auto c0, auto c1, auto c2, auto c3) HWY_ATTR {
    const auto first = hn::Or(hn::And(c0, low_half), hn::ShiftLeft<32>(c1));
    const auto second = hn::Or(hn::And(c2, low_half), hn::ShiftLeft<32>(c3));
    if (draw + lanes <= num_draws) {
      hn::StoreInterleaved2(first, second, d, reinterpret_cast<uint64_t*>(words + 4 * draw));
    } else if (draw < num_draws) {
      HWY_ALIGN uint64_t tail[2 * hn::MaxLanes(d)];
      hn::StoreInterleaved2(first, second, d, tail);
      std::memcpy(words + 4 * draw, tail, 4 * sizeof(uint32_t) * (num_draws - draw));
    }
  };
  const auto ordinal0 = hn::Set(d, ordinal);
  const auto ordinal1 = hn::Set(d, ordinal >> 32);
  const auto zero = hn::Zero(d);
  const auto first_draws = hn::Iota(d, 0);
  for (size_t draw = 0; draw < num_draws; draw += 4 * lanes) {
    // Words 0 and 1 of a counter are the ordinal, 2 the draw; 3 is 0, a row has fewer than 2^32 draws.
    auto a0 = ordinal0, a1 = ordinal1, a2 = hn::Add(first_draws, hn::Set(d, draw)), a3 = zero;
    auto b0 = ordinal0, b1 = ordinal1, b2 = hn::Add(first_draws, hn::Set(d, draw + lanes)), b3 = zero;
    auto e0 = ordinal0, e1 = ordinal1, e2 = hn::Add(first_draws, hn::Set(d, draw + 2 * lanes)), e3 = zero;
    auto f0 = ordinal0, f1 = ordinal1, f2 = hn::Add(first_draws, hn::Set(d, draw + 3 * lanes)), f3 = zero;
    uint32_t k0 = key0;
    uint32_t k1 = key1;
    for (int round = 0; round < 10; ++round) {
      const auto round_key0 = hn::Set(d, static_cast<uint64_t>(k0));
      const auto round_key1 = hn::Set(d, static_cast<uint64_t>(k1));
      next_round(round_key0, round_key1, a0, a1, a2, a3);
      next_round(round_key0, round_key1, b0, b1, b2, b3);
      next_round(round_key0, round_key1, e0, e1, e2, e3);
      next_round(round_key0, round_key1, f0, f1, f2, f3);
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    store(draw, a0, a1, a2, a3);
    store(draw + lanes, b0, b1, b2, b3);
    store(draw + 2 * lanes, e0, e1, e2, e3);
    store(draw + 3 * lanes, f0, f1, f2, f3);
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace {

HWY_EXPORT(PhiloxWords);

void philox_words(const CounterRng& rng, uint64_t ordinal, size_t num_draws, std::span<uint32_t> words) {
  HWY_DYNAMIC_DISPATCH(PhiloxWords)(rng.key()[0], rng.key()[1], ordinal, num_draws, words.data());
}

}  // namespace millrace
#endif
