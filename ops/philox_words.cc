// Compiled once for each instruction set that Highway knows here; see HWY_EXPORT at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/philox_words.cc"
#include "ops/philox_words.h"

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

// Philox4x32-10 (Salmon et al. 2011) on as many counters at once as a vector has 64-bit lanes. Each lane holds a 32-bit
// word in its low half, so that one widening multiply gives both halves of a product.
void PhiloxWords(uint32_t key0, uint32_t key1, uint64_t ordinal, size_t num_draws, uint32_t* HWY_RESTRICT words) {
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> d32;
  const size_t lanes = hn::Lanes(d);
  const auto low_half = hn::Set(d, 0xffffffffULL);
  const auto multiplier0 = hn::BitCast(d32, hn::Set(d, 0xD2511F53ULL));
  const auto multiplier1 = hn::BitCast(d32, hn::Set(d, 0xCD9E8D57ULL));
  for (size_t draw = 0; draw < num_draws; draw += lanes) {
    const auto counter = hn::Iota(d, draw);
    auto c0 = hn::Set(d, ordinal & 0xffffffffULL);
    auto c1 = hn::Set(d, ordinal >> 32);
    auto c2 = hn::And(counter, low_half);
    auto c3 = hn::ShiftRight<32>(counter);
    uint32_t k0 = key0;
    uint32_t k1 = key1;
    for (int round = 0; round < 10; ++round) {
      const auto product0 = hn::MulEven(hn::BitCast(d32, c0), multiplier0);
      const auto product1 = hn::MulEven(hn::BitCast(d32, c2), multiplier1);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), c1), hn::Set(d, static_cast<uint64_t>(k0)));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), c3), hn::Set(d, static_cast<uint64_t>(k1)));
      c1 = hn::And(product1, low_half);
      c3 = hn::And(product0, low_half);
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    const auto first = hn::Or(c0, hn::ShiftLeft<32>(c1));
    const auto second = hn::Or(c2, hn::ShiftLeft<32>(c3));
    if (draw + lanes <= num_draws) {
      hn::StoreInterleaved2(first, second, d, reinterpret_cast<uint64_t*>(words + 4 * draw));
    } else {
      HWY_ALIGN uint64_t tail[2 * hn::MaxLanes(d)];
      hn::StoreInterleaved2(first, second, d, tail);
      for (size_t i = 0; i < 2 * (num_draws - draw); ++i) {
        words[4 * draw + 2 * i] = static_cast<uint32_t>(tail[i]);
        words[4 * draw + 2 * i + 1] = static_cast<uint32_t>(tail[i] >> 32);
      }
    }
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
