// Compiled once for each instruction set that Highway knows here; see HWY_EXPORT at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "millrace/formats/random/philox_words.cc"
#include "millrace/formats/random/philox_words.h"

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

void PhiloxBits(uint32_t key0, uint32_t key1, uint64_t first_ordinal, size_t count, uint64_t* HWY_RESTRICT bits) {
  for (size_t i = 0; i < count; ++i) {
    const CounterRng::Words random = CounterRng::philox(first_ordinal + i, 0, {key0, key1});
    bits[i] = random[0] | uint64_t{random[1]} << 32;
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

// The low halves of both, side by side.
template <class D, class V>
HWY_INLINE V Pair(D d, V low, V high) {
  const hn::Repartition<uint32_t, D> d32;
  return hn::BitCast(d, hn::OddEven(hn::Shuffle2301(hn::BitCast(d32, high)), hn::BitCast(d32, low)));
}

constexpr size_t kRounds = 10;

// The keys of each round. A load to all lanes takes no more than one of a vector, and ten pairs are put down sooner
// than twenty vectors.
struct RoundKeys {
  RoundKeys(uint32_t key0, uint32_t key1) {
    for (size_t round = 0; round < kRounds; ++round) {
      keys[2 * round] = key0 + static_cast<uint32_t>(round) * kWeyl0;
      keys[2 * round + 1] = key1 + static_cast<uint32_t>(round) * kWeyl1;
    }
  }
  uint64_t keys[2 * kRounds];
};

// All rounds from `first` on, on each of `counters`, side by side, since each round waits for the multiply of the one
// before. A loop, which the compiler must not unroll: it would keep more at hand than there are registers.
template <class D, class... C>
HWY_INLINE void Rounds(D d, const RoundKeys& round_keys, size_t first, C&... counters) {
#pragma GCC unroll 1
  for (size_t round = first; round < kRounds; ++round) {
    const auto key0 = hn::Set(d, round_keys.keys[2 * round]);
    const auto key1 = hn::Set(d, round_keys.keys[2 * round + 1]);
    (NextRound(d, key0, key1, counters), ...);
  }
}

// As many sets side by side as there are registers for: one takes four, of 32 with AVX-512 and of 16 or so without.
constexpr bool kFourSets = hn::MaxLanes(hn::ScalableTag<uint64_t>()) >= 8;

// All rounds from `first` on, of counters that `make` gives in order, as many at a time as there are lanes, until there
// are `count`; `store` gets each of them with the number of its first lane.
template <class D, class Make, class Store>
HWY_INLINE void RoundsOfMany(D d, const RoundKeys& keys, size_t first, size_t count, const Make& make,
                             const Store& store) {
  const size_t lanes = hn::Lanes(d);
  for (size_t at = 0; at < count; at += (kFourSets ? 4 : 3) * lanes) {
    auto a = make();
    auto b = make();
    auto e = make();
    if constexpr (kFourSets) {
      auto f = make();
      Rounds(d, keys, first, a, b, e, f);
      store(at + 3 * lanes, f);
    } else {
      Rounds(d, keys, first, a, b, e);
    }
    store(at, a);
    store(at + lanes, b);
    store(at + 2 * lanes, e);
  }
}

// What the counters of one row have in common after their first two rounds: words 0 and 1 of a counter are the ordinal,
// 2 the draw; 3 is 0, a row has fewer than 2^32 draws.
struct RowPart {
  static constexpr size_t kRoundsDone = 2;

  RowPart(uint32_t key0, uint32_t key1, uint64_t ordinal) {
    const auto product0 = kMultiplier0 * static_cast<uint32_t>(ordinal);
    const auto word2 = static_cast<uint32_t>(product0 >> 32) ^ key1;
    product1 = kMultiplier1 * word2;
    xor_first = static_cast<uint32_t>(ordinal >> 32) ^ key0;
    xor_word0 = static_cast<uint32_t>(product1 >> 32) ^ (key0 + kWeyl0);
    xor_word2 = static_cast<uint32_t>(product0) ^ (key1 + kWeyl1);
  }

  uint64_t product1;  // of the second round; word 1 is its low half
  uint64_t xor_first;
  uint64_t xor_word0;
  uint64_t xor_word2;
};

#if HWY_TARGET == HWY_AVX2

// Four counters in two vectors. Their words 0 and 2, which are multiplied next, fill one; the other has words 1 and 3
// in the places where they will be needed. With a counter's words in vectors of their own, as above, half of each is
// nothing, and 16 registers are few: this takes 0.26 µs for 512 words where that takes 0.31.
//
// A round leaves the high halves of two vectors of products, and one shuffle packs them; low halves of products come
// from another multiply, in the places of their factors. Counters a and b of 128 bits so go round in four rounds:
//
//     words02:  0a 2a 0b 2b  ─►  2a 2b 0a 0b  ─►  2a 0a 2b 0b  ─►  0a 0b 2a 2b  ─►  0a 2a 0b 2b
//     words13:  3a 3b 1a 1b  ─►  3a 1a 3b 1b  ─►  1a 1b 3a 3b  ─►  1a 3a 1b 3b  ─►  3a 3b 1a 1b
using WordsTag = hn::ScalableTag<uint32_t>;
using Words = hn::Vec<WordsTag>;
struct PackedCounters {
  Words words02, words13;
};

// In each 128 bits two words of `from0`, then two of `from1`.
template <int k0, int k1, int k2, int k3, class V>
HWY_INLINE Words Pick(V from0, V from1) {
  return Words{_mm256_castps_si256(
      _mm256_shuffle_ps(_mm256_castsi256_ps(from0.raw), _mm256_castsi256_ps(from1.raw), _MM_SHUFFLE(k3, k2, k1, k0)))};
}

// The multipliers of the words in each place of words02, named by these.
struct Multipliers {
  static constexpr uint32_t kPlaced[][4] = {{kMultiplier0, kMultiplier1, kMultiplier0, kMultiplier1},
                                            {kMultiplier1, kMultiplier0, kMultiplier1, kMultiplier0},
                                            {kMultiplier0, kMultiplier0, kMultiplier1, kMultiplier1},
                                            {kMultiplier1, kMultiplier1, kMultiplier0, kMultiplier0}};
  Multipliers()
      : of0202(hn::LoadDup128(WordsTag(), kPlaced[0])),
        of2020(hn::LoadDup128(WordsTag(), kPlaced[1])),
        of0022(hn::LoadDup128(WordsTag(), kPlaced[2])),
        of2200(hn::LoadDup128(WordsTag(), kPlaced[3])) {}
  Words of0202, of2020, of0022, of2200;
};

// `even`, `odd`: the multipliers of the words in even places, and of those in odd ones moved there; `all`: of each in
// its place. `kSwapped`: in which order the halves are packed. `kLast`: words13 come to stand as words02 do.
template <bool kSwapped, bool kLast>
HWY_INLINE void PackedRound(Words key, Words even, Words odd, Words all, PackedCounters& c) {
  const hn::Repartition<uint64_t, WordsTag> d64;
  const Words other = hn::Xor(c.words13, key);
  const auto products_of_even = hn::MulEven(c.words02, even);
  const auto products_of_odd =
      hn::MulEven(hn::BitCast(WordsTag(), hn::ShiftRight<32>(hn::BitCast(d64, c.words02))), odd);
  if constexpr (kLast) {
    c.words13 = Pick<2, 0, 2, 0>(products_of_even, products_of_odd);
  } else {
    c.words13 = hn::Mul(c.words02, all);
  }
  constexpr int kFirst = kSwapped ? 3 : 1;
  c.words02 = hn::Xor(Pick<kFirst, 4 - kFirst, kFirst, 4 - kFirst>(products_of_even, products_of_odd), other);
}

// Four rounds of each of `counters`, side by side.
template <bool kLast, size_t kCount>
HWY_INLINE void FourRounds(const uint32_t* keys, const Multipliers& by, PackedCounters (&counters)[kCount]) {
  const auto rounds = [&](size_t round, auto&& apply) HWY_ATTR {
    const WordsTag d;
    const Words key = hn::Load(d, keys + round * hn::MaxLanes(d));
#pragma GCC unroll 8
    for (size_t i = 0; i < kCount; ++i) apply(key, counters[i]);
  };
  rounds(0, [&](Words key, PackedCounters& c)
                HWY_ATTR { PackedRound<false, false>(key, by.of0202, by.of2020, by.of0202, c); });
  rounds(1, [&](Words key, PackedCounters& c)
                HWY_ATTR { PackedRound<true, false>(key, by.of2200, by.of2200, by.of2200, c); });
  rounds(2, [&](Words key, PackedCounters& c)
                HWY_ATTR { PackedRound<false, false>(key, by.of2020, by.of0202, by.of2020, c); });
  rounds(3, [&](Words key, PackedCounters& c)
                HWY_ATTR { PackedRound<true, kLast>(key, by.of0022, by.of0022, by.of0022, c); });
}

// Four counters after the rounds of `row`, from the products of their draws with the second multiplier.
template <class V>
HWY_INLINE PackedCounters PackedOf(const RowPart& row, V products) {
  const hn::DFromV<V> d;
  const V word0 = hn::Xor(High(d, products), hn::Set(d, row.xor_first));
  const V product0 = Multiply(d, word0, kMultiplier0);
  const Words words02 = hn::OddEven(hn::BitCast(WordsTag(), product0), hn::BitCast(WordsTag(), products));
  return {hn::Xor(words02, hn::BitCast(WordsTag(), hn::Set(d, row.xor_word0 | row.xor_word2 << 32))),
          Pick<0, 2, 0, 0>(product0, hn::Set(d, row.product1))};
}

// The keys of each round after those of RowPart, in the places of PackedCounters.
struct PackedKeys {
  PackedKeys(uint32_t key0, uint32_t key1) {
    const WordsTag d;
    const hn::Repartition<uint64_t, WordsTag> d64;
    const Words weyl = hn::BitCast(d, hn::Set(d64, uint64_t{kWeyl0} | uint64_t{kWeyl1} << 32));
    Words pairs = hn::BitCast(d, hn::Set(d64, uint64_t{key0} | uint64_t{key1} << 32));
    for (size_t round = 0; round < RowPart::kRoundsDone; ++round) pairs = hn::Add(pairs, weyl);
    for (size_t round = 0; round < kRounds - RowPart::kRoundsDone; ++round) {
      const Words halves = hn::InterleaveLower(d, pairs, pairs);
      const Words placed[] = {hn::Shuffle1032(halves), hn::Shuffle2301(pairs), halves, pairs};
      hn::Store(placed[round % 4], d, keys + round * hn::Lanes(d));
      pairs = hn::Add(pairs, weyl);
    }
  }
  HWY_ALIGN uint32_t keys[(kRounds - RowPart::kRoundsDone) * hn::MaxLanes(WordsTag())];
};

void PhiloxWords(uint32_t key0, uint32_t key1, uint64_t ordinal, size_t num_draws, uint32_t* HWY_RESTRICT words) {
  const hn::ScalableTag<uint64_t> d;
  const WordsTag d_words;
  constexpr size_t kLanes = hn::MaxLanes(d);
  const RowPart row(key0, key1, ordinal);
  const PackedKeys keys(key0, key1);
  const Multipliers multipliers;
  // Draws whose words come out next to each other.
  HWY_ALIGN constexpr uint64_t kDraws[] = {0, 2, 1, 3};
  auto products = Multiply(d, hn::Load(d, kDraws), kMultiplier1);
  const auto counters = [&]() HWY_ATTR {
    const PackedCounters four = PackedOf(row, products);
    products = hn::Add(products, hn::Set(d, kLanes * kMultiplier1));
    return four;
  };
  const auto store = [&](size_t draw, const PackedCounters& c) HWY_ATTR {
    const Words first = hn::InterleaveLower(d_words, c.words02, c.words13);
    const Words second = hn::InterleaveUpper(d_words, c.words02, c.words13);
    HWY_ALIGN uint32_t tail[4 * kLanes];
    const bool whole = draw + kLanes <= num_draws;
    uint32_t* to = whole ? words + 4 * draw : tail;
    hn::StoreU(first, d_words, to);
    hn::StoreU(second, d_words, to + 2 * kLanes);
    if (!whole && draw < num_draws) std::memcpy(words + 4 * draw, tail, 4 * sizeof(uint32_t) * (num_draws - draw));
  };
  size_t draw = 0;
  const auto make = [&]<size_t kCount>() HWY_ATTR {
    PackedCounters some[kCount];
#pragma GCC unroll 8
    for (size_t i = 0; i < kCount; ++i) some[i] = counters();
    FourRounds</*kLast=*/false>(keys.keys, multipliers, some);
    FourRounds</*kLast=*/true>(keys.keys + 4 * hn::MaxLanes(d_words), multipliers, some);
#pragma GCC unroll 8
    for (size_t i = 0; i < kCount; ++i, draw += kLanes) store(draw, some[i]);
  };
  // Eight do not fit into the registers, yet take a ninth less than four: a round waits for each multiply of the one
  // before, and some of what it waits for is at hand only when others have gone on.
  while (draw + 4 * kLanes < num_draws) make.template operator()<8>();
  if (draw < num_draws) make.template operator()<4>();
}

#else

// Counters after the rounds of `row`, from the products of their draws with the second multiplier.
template <class D, class V>
HWY_INLINE Counters<V> CountersOf(D d, const RowPart& row, V products) {
  const V word0 = hn::Xor(High(d, products), hn::Set(d, row.xor_first));
  const V product0 = Multiply(d, word0, kMultiplier0);
  return {hn::Xor(products, hn::Set(d, row.xor_word0)), hn::Set(d, row.product1),
          hn::Xor(High(d, product0), hn::Set(d, row.xor_word2)), product0};
}

// The draw of each lane, less that of the first. Each 128 bits of two vectors will hold the words of one counter, those
// of even lanes in the first vector and of odd ones in the second: so these are next to each other.
template <class D>
HWY_INLINE hn::Vec<D> DrawsOfLanes(D d) {
  const auto lane = hn::Iota(d, 0);
  const auto is_odd = hn::And(lane, hn::Set(d, uint64_t{1}));
  const auto of_odd = hn::And(hn::Sub(hn::Zero(d), is_odd), hn::Set(d, uint64_t{hn::Lanes(d) / 2}));
  return hn::Add(hn::ShiftRight<1>(lane), of_odd);
}

void PhiloxWords(uint32_t key0, uint32_t key1, uint64_t ordinal, size_t num_draws, uint32_t* HWY_RESTRICT words) {
  const hn::ScalableTag<uint64_t> d;
  const size_t lanes = hn::Lanes(d);
  const RoundKeys keys(key0, key1);
  const RowPart row(key0, key1, ordinal);
  auto products = Multiply(d, DrawsOfLanes(d), kMultiplier1);
  const auto next_products = hn::Set(d, lanes * kMultiplier1);
  const auto counters = [&]() HWY_ATTR {
    const auto some = CountersOf(d, row, products);
    products = hn::Add(products, next_products);
    return some;
  };
  const auto store = [&](size_t draw, const auto& c) HWY_ATTR {
    const auto words01 = Pair(d, c.c0, c.c1);
    const auto words23 = Pair(d, c.c2, c.c3);
    const hn::Repartition<uint32_t, decltype(d)> d_words;
    HWY_ALIGN uint32_t tail[4 * hn::MaxLanes(d)];
    const bool whole = draw + lanes <= num_draws;
    uint32_t* to = whole ? words + 4 * draw : tail;
    hn::StoreU(hn::BitCast(d_words, hn::InterleaveLower(d, words01, words23)), d_words, to);
    hn::StoreU(hn::BitCast(d_words, hn::InterleaveUpper(d, words01, words23)), d_words, to + 2 * lanes);
    if (!whole && draw < num_draws) std::memcpy(words + 4 * draw, tail, 4 * sizeof(uint32_t) * (num_draws - draw));
  };
  RoundsOfMany(d, keys, RowPart::kRoundsDone, num_draws, counters, store);
}

#endif

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

void PhiloxBits(uint32_t key0, uint32_t key1, uint64_t first_ordinal, size_t count, uint64_t* HWY_RESTRICT bits) {
  const hn::ScalableTag<uint64_t> d;
  const size_t lanes = hn::Lanes(d);
  const RoundKeys keys(key0, key1);
  auto ordinals = hn::Add(hn::Iota(d, 0), hn::Set(d, first_ordinal));
  const auto next_ordinals = hn::Set(d, uint64_t{lanes});
  const auto counters = [&]() HWY_ATTR {
    const Counters<hn::Vec<decltype(d)> > some{ordinals, hn::ShiftRight<32>(ordinals), hn::Zero(d), hn::Zero(d)};
    ordinals = hn::Add(ordinals, next_ordinals);
    return some;
  };
  const auto store = [&](size_t at, const auto& c) HWY_ATTR {
    const auto words01 = Pair(d, c.c0, c.c1);
    if (at + lanes <= count) return hn::StoreU(words01, d, bits + at);
    HWY_ALIGN uint64_t tail[hn::MaxLanes(d)];
    hn::Store(words01, d, tail);
    for (; at < count; ++at) bits[at] = tail[at % lanes];
  };
  RoundsOfMany(d, keys, 0, count, counters, store);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace {

HWY_EXPORT(PhiloxWords);
HWY_EXPORT(PhiloxFirstWords);
HWY_EXPORT(PhiloxBits);

void philox_words(const CounterRng& rng, uint64_t ordinal, size_t num_draws, std::span<uint32_t> words) {
  HWY_DYNAMIC_DISPATCH(PhiloxWords)(rng.key()[0], rng.key()[1], ordinal, num_draws, words.data());
}

void philox_first_words(const CounterRng& rng, std::span<const Draw> draws, std::span<uint32_t> words) {
  HWY_DYNAMIC_DISPATCH(PhiloxFirstWords)(rng.key()[0], rng.key()[1], draws.data(), draws.size(), words.data());
}

void philox_bits(const CounterRng& rng, uint64_t first_ordinal, std::span<uint64_t> bits) {
  HWY_DYNAMIC_DISPATCH(PhiloxBits)(rng.key()[0], rng.key()[1], first_ordinal, bits.size(), bits.data());
}

}  // namespace millrace
#endif
