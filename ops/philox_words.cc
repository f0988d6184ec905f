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

void PhiloxFirstWords(uint32_t key0, uint32_t key1, const Draw* HWY_RESTRICT draws, size_t count,
                      uint32_t* HWY_RESTRICT words) {
  for (size_t i = 0; i < count; ++i) {
    words[i] = CounterRng::philox(draws[i].ordinal, draws[i].draw, {key0, key1})[0];
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;

// Philox4x32-10 (Salmon et al. 2011) on as many counters at once as a vector has 64-bit lanes. A lane holds a 32-bit
// word in its low half, so that one widening multiply gives both halves of a product; multiplies do not see what is
// left in the high half.
template <class V>
struct Counters {
  V c0, c1, c2, c3;
};

constexpr uint64_t kMultiplier0 = 0xD2511F53;
constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;

template <class D, class V>
HWY_INLINE V Multiply(D d, V word, uint64_t multiplier) {
  const hn::Repartition<uint32_t, D> d32;
  return hn::MulEven(hn::BitCast(d32, word), hn::BitCast(d32, hn::Set(d, multiplier)));
}

// A shuffle, not a shift: those wait for the unit that multiplies.
template <class D, class V>
HWY_INLINE V High(D d, V product) {
  const hn::Repartition<uint32_t, D> d32;
  return hn::BitCast(d, hn::Shuffle2301(hn::BitCast(d32, product)));
}

template <class D, class V = hn::Vec<D> >
HWY_INLINE void NextRound(D d, V key0, V key1, Counters<V>& c) {
  const V product0 = Multiply(d, c.c0, kMultiplier0);
  const V product1 = Multiply(d, c.c2, kMultiplier1);
  c.c0 = hn::Xor3(High(d, product1), c.c1, key0);
  c.c2 = hn::Xor3(High(d, product0), c.c3, key1);
  c.c1 = product1;
  c.c3 = product0;
}

constexpr size_t kRounds = 10;

// The keys of each round, in all lanes.
struct RoundKeys {
  RoundKeys(uint32_t key0, uint32_t key1) {
    const hn::ScalableTag<uint64_t> d;
    for (size_t round = 0; round < kRounds; ++round) {
      hn::Store(hn::Set(d, uint64_t{key0}), d, keys + 2 * round * hn::MaxLanes(d));
      hn::Store(hn::Set(d, uint64_t{key1}), d, keys + (2 * round + 1) * hn::MaxLanes(d));
      key0 += kWeyl0;
      key1 += kWeyl1;
    }
  }
  HWY_ALIGN uint64_t keys[2 * kRounds * hn::MaxLanes(hn::ScalableTag<uint64_t>())];
};

// All rounds from `first` on, on each of `counters`, side by side, since each round waits for the multiply of the one
// before. A loop, which the compiler must not unroll: it would keep more at hand than there are registers.
template <class D, class... C>
HWY_INLINE void Rounds(D d, const RoundKeys& round_keys, size_t first, C&... counters) {
  const uint64_t* keys = round_keys.keys + 2 * first * hn::MaxLanes(d);
#pragma GCC unroll 1
  for (size_t round = first; round < kRounds; ++round, keys += 2 * hn::MaxLanes(d)) {
    const auto key0 = hn::Load(d, keys);
    const auto key1 = hn::Load(d, keys + hn::MaxLanes(d));
    (NextRound(d, key0, key1, counters), ...);
  }
}

// The counters of one row after their first two rounds, of which half is the same for all its draws: words 0 and 1 of a
// counter are the ordinal, 2 the draw; 3 is 0, a row has fewer than 2^32 draws.
class RowCounters {
 public:
  static constexpr size_t kRoundsDone = 2;

  RowCounters(uint32_t key0, uint32_t key1, uint64_t ordinal) {
    const auto product0 = kMultiplier0 * static_cast<uint32_t>(ordinal);
    const auto word2 = static_cast<uint32_t>(product0 >> 32) ^ key1;
    product1_ = kMultiplier1 * word2;
    xor_first_ = static_cast<uint32_t>(ordinal >> 32) ^ key0;
    xor_word0_ = static_cast<uint32_t>(product1_ >> 32) ^ (key0 + kWeyl0);
    xor_word2_ = static_cast<uint32_t>(product0) ^ (key1 + kWeyl1);
  }

  // Of as many draws as there are lanes.
  template <class D, class V>
  HWY_INLINE Counters<V> Of(D d, V draws) const {
    const V product1 = Multiply(d, draws, kMultiplier1);
    const V word0 = hn::Xor(High(d, product1), hn::Set(d, xor_first_));
    const V product0 = Multiply(d, word0, kMultiplier0);
    return {hn::Xor(product1, hn::Set(d, xor_word0_)), hn::Set(d, product1_),
            hn::Xor(High(d, product0), hn::Set(d, xor_word2_)), product0};
  }

 private:
  uint64_t product1_;
  uint64_t xor_first_;
  uint64_t xor_word0_;
  uint64_t xor_word2_;
};

void PhiloxWords(uint32_t key0, uint32_t key1, uint64_t ordinal, size_t num_draws, uint32_t* HWY_RESTRICT words) {
  const hn::ScalableTag<uint64_t> d;
  const size_t lanes = hn::Lanes(d);
  const RoundKeys keys(key0, key1);
  // The low halves of both, side by side.
  const auto pair = [&](auto low, auto high) HWY_ATTR {
    const hn::Repartition<uint32_t, decltype(d)> d32;
    return hn::BitCast(d, hn::OddEven(hn::BitCast(d32, hn::ShiftLeft<32>(high)), hn::BitCast(d32, low)));
  };
  const auto store = [&](size_t draw, const auto& c) HWY_ATTR {
    const auto first = pair(c.c0, c.c1);
    const auto second = pair(c.c2, c.c3);
    if (draw + lanes <= num_draws) {
      hn::StoreInterleaved2(first, second, d, reinterpret_cast<uint64_t*>(words + 4 * draw));
    } else if (draw < num_draws) {
      HWY_ALIGN uint64_t tail[2 * hn::MaxLanes(d)];
      hn::StoreInterleaved2(first, second, d, tail);
      std::memcpy(words + 4 * draw, tail, 4 * sizeof(uint32_t) * (num_draws - draw));
    }
  };
  const RowCounters row(key0, key1, ordinal);
  const auto first_draws = hn::Iota(d, 0);
  const auto counters = [&](size_t first_draw)
                            HWY_ATTR { return row.Of(d, hn::Add(first_draws, hn::Set(d, uint64_t{first_draw}))); };
  // As many side by side as there are registers for: a counter takes four, of 32 with AVX-512 and of 16 with AVX2.
  constexpr bool kFour = hn::MaxLanes(d) >= 8;
  for (size_t draw = 0; draw < num_draws; draw += (kFour ? 4 : 3) * lanes) {
    auto a = counters(draw);
    auto b = counters(draw + lanes);
    auto e = counters(draw + 2 * lanes);
    if constexpr (kFour) {
      auto f = counters(draw + 3 * lanes);
      Rounds(d, keys, RowCounters::kRoundsDone, a, b, e, f);
      store(draw + 3 * lanes, f);
    } else {
      Rounds(d, keys, RowCounters::kRoundsDone, a, b, e);
    }
    store(draw, a);
    store(draw + lanes, b);
    store(draw + 2 * lanes, e);
  }
}

void PhiloxFirstWords(uint32_t key0, uint32_t key1, const Draw* HWY_RESTRICT draws, size_t count,
                      uint32_t* HWY_RESTRICT words) {
  const hn::ScalableTag<uint64_t> d;
  const size_t lanes = hn::Lanes(d);
  const RoundKeys keys(key0, key1);
  HWY_ALIGN uint64_t some[2 * hn::MaxLanes(d)] = {};
  for (size_t i = 0; i < count; i += lanes) {
    const size_t now = HWY_MIN(lanes, count - i);
    const uint64_t* from = reinterpret_cast<const uint64_t*>(draws + i);
    if (now < lanes) {
      std::memcpy(some, from, now * sizeof(Draw));
      from = some;
    }
    hn::Vec<decltype(d)> ordinal, draw;
    hn::LoadInterleaved2(d, from, ordinal, draw);
    Counters<hn::Vec<decltype(d)> > c{ordinal, hn::ShiftRight<32>(ordinal), draw, hn::ShiftRight<32>(draw)};
    Rounds(d, keys, 0, c);
    hn::Store(c.c0, d, some);
    for (size_t lane = 0; lane < now; ++lane) words[i + lane] = static_cast<uint32_t>(some[lane]);
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace {

HWY_EXPORT(PhiloxWords);
HWY_EXPORT(PhiloxFirstWords);

void philox_words(const CounterRng& rng, uint64_t ordinal, size_t num_draws, std::span<uint32_t> words) {
  HWY_DYNAMIC_DISPATCH(PhiloxWords)(rng.key()[0], rng.key()[1], ordinal, num_draws, words.data());
}

void philox_first_words(const CounterRng& rng, std::span<const Draw> draws, std::span<uint32_t> words) {
  HWY_DYNAMIC_DISPATCH(PhiloxFirstWords)(rng.key()[0], rng.key()[1], draws.data(), draws.size(), words.data());
}

}  // namespace millrace
#endif
