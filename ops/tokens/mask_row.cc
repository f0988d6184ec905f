// Compiled once for each instruction set that Highway knows here; see HWY_EXPORT at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "millrace/ops/tokens/mask_row.cc"
#include "millrace/ops/tokens/mask_row.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef MILLRACE_MASK_POSITIONS_ONCE
#define MILLRACE_MASK_POSITIONS_ONCE
namespace millrace {
namespace {

// Positions [begin, length), one at a time: the end of a row, and all of it where vectors do not help.
template <typename Id>
void mask_positions(const MaskRule& rule, const Id* original, const int64_t* attention, const uint32_t* words,
                    size_t begin, size_t length, Id* ids, Id* labels, uint8_t* drawn) {
  constexpr Id kNoLabel = -100;
  for (size_t p = begin; p < length; ++p) {
    const Id id = original[p];
    const uint32_t word = words[p];
    bool chosen = word < rule.chosen_below && (attention == nullptr || attention[p] != 0);
    for (const int32_t special : rule.special_tokens) chosen = chosen && id != special;
    labels[p] = chosen ? id : kNoLabel;
    ids[p] = chosen && word < rule.mask_below ? static_cast<Id>(rule.mask_token) : id;
    const bool is_drawn = chosen && word >= rule.mask_below && word < rule.random_below;
    drawn[p / 8] = static_cast<uint8_t>(drawn[p / 8] | static_cast<uint32_t>(is_drawn) << p % 8);
  }
}

}  // namespace
}  // namespace millrace
#endif

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;

// The bits of the lanes that hold positions from `begin` on. `drawn` is 0 there.
template <class D, class M>
HWY_INLINE void StoreDrawn(D d, M mask, size_t begin, uint8_t* HWY_RESTRICT drawn) {
  uint8_t bits[8] = {};  // StoreMaskBits may want all 8, `drawn` may end before
  hn::StoreMaskBits(d, mask, bits);
  if (hn::Lanes(d) >= 8) {
    std::memcpy(drawn + begin / 8, bits, hn::Lanes(d) / 8);
  } else {
    drawn[begin / 8] = static_cast<uint8_t>(drawn[begin / 8] | bits[0] << begin % 8);
  }
}

// Those of the lanes `among` where a < b, and where a != b. AVX-512 compares some lanes of a vector in one instruction.
template <class M, class V>
HWY_INLINE M LtAmong(M among, V a, V b) {
#if HWY_TARGET <= HWY_AVX3
  if constexpr (std::is_same_v<hn::TFromV<V>, uint32_t>) {
    return M{_mm512_mask_cmplt_epu32_mask(among.raw, a.raw, b.raw)};
  } else {
    static_assert(std::is_same_v<hn::TFromV<V>, int64_t>);
    return M{_mm512_mask_cmplt_epi64_mask(among.raw, a.raw, b.raw)};
  }
#else
  return hn::And(among, hn::Lt(a, b));
#endif
}
template <class M, class V>
HWY_INLINE M NeAmong(M among, V a, V b) {
#if HWY_TARGET <= HWY_AVX3
  if constexpr (std::is_same_v<hn::TFromV<V>, int32_t>) {
    return M{_mm512_mask_cmpneq_epi32_mask(among.raw, a.raw, b.raw)};
  } else {
    static_assert(std::is_same_v<hn::TFromV<V>, int64_t>);
    return M{_mm512_mask_cmpneq_epi64_mask(among.raw, a.raw, b.raw)};
  }
#else
  return hn::AndNot(hn::Eq(a, b), among);
#endif
}

// What becomes of the positions from `begin` on, of which `chosen` are. `masked` and `below_random` are among these:
// those with words below the bounds of MaskRule. What is below the second one only is drawn.
template <class D, class V, class M, typename Id>
HWY_INLINE void StoreFates(D d, V id, M chosen, M masked, M below_random, V mask_token, size_t begin, Id* ids,
                           Id* HWY_RESTRICT labels, uint8_t* HWY_RESTRICT drawn) {
  const auto random = hn::AndNot(masked, below_random);
  hn::StoreU(hn::IfThenElse(chosen, id, hn::Set(d, Id{-100})), d, labels + begin);
  hn::StoreU(hn::IfThenElse(masked, mask_token, id), d, ids + begin);
  StoreDrawn(d, random, begin, drawn);
}

// More special tokens than this are gone through in a loop.
constexpr size_t kMostUnrolled = 5;

// Masks as many positions as whole vectors have, and returns how many. `kSpecial`: how many special tokens there are;
// above kMostUnrolled, any number.
template <size_t kSpecial>
size_t MaskVectors(const MaskRule& rule, const int32_t* original, const int64_t* HWY_RESTRICT attention,
                   const uint32_t* HWY_RESTRICT words, size_t length, int32_t* ids, int32_t* HWY_RESTRICT labels,
                   uint8_t* HWY_RESTRICT drawn) {
  // By value: what is stored could be part of the rule, for all the compiler knows.
  const std::span<const int32_t> special_tokens = rule.special_tokens;
  const hn::ScalableTag<int32_t> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Repartition<int64_t, decltype(d)> d64;
  const size_t lanes = hn::Lanes(d);
  const auto mask_below = hn::Set(du, static_cast<uint32_t>(rule.mask_below));
  const auto random_below = hn::Set(du, static_cast<uint32_t>(rule.random_below));
  const auto chosen_below = hn::Set(du, static_cast<uint32_t>(rule.chosen_below));
  const auto mask_token = hn::Set(d, rule.mask_token);
  HWY_ALIGN int32_t unrolled[kMostUnrolled * hn::MaxLanes(d)];
  constexpr size_t kUnrolled = kSpecial <= kMostUnrolled ? kSpecial : 0;
  for (size_t s = 0; s < kUnrolled; ++s) hn::Store(hn::Set(d, special_tokens[s]), d, unrolled + s * lanes);

  const auto mask_vector = [&](size_t begin, bool may_lack_tokens) HWY_ATTR {
    const auto id = hn::LoadU(d, original + begin);
    const auto word = hn::LoadU(du, words + begin);
    auto chosen = hn::RebindMask(d, hn::Lt(word, chosen_below));
    if (may_lack_tokens) {
      const auto is_zero = [&](size_t at) HWY_ATTR {
        return hn::BitCast(d, hn::VecFromMask(d64, hn::Eq(hn::LoadU(d64, attention + at), hn::Zero(d64))));
      };
      const auto none = hn::ConcatEven(d, is_zero(begin + lanes / 2), is_zero(begin));
      chosen = hn::AndNot(hn::MaskFromVec(none), chosen);
    }
    if constexpr (kSpecial <= kMostUnrolled) {
#pragma GCC unroll 8
      for (size_t s = 0; s < kUnrolled; ++s) {
        chosen = NeAmong(chosen, id, hn::Load(d, unrolled + s * lanes));
      }
    } else {
      for (const int32_t special : special_tokens) chosen = NeAmong(chosen, id, hn::Set(d, special));
    }
    const auto chosen_words = hn::RebindMask(du, chosen);
    const auto masked = hn::RebindMask(d, LtAmong(chosen_words, word, mask_below));
    const auto below_random = hn::RebindMask(d, LtAmong(chosen_words, word, random_below));
    StoreFates(d, id, chosen, masked, below_random, mask_token, begin, ids, labels, drawn);
  };
  // Most rows are full. Where one bit is 1 in all of some values, none of them is 0; they are taken for 1s mostly.
  const auto may_lack_tokens = [&](size_t begin) HWY_ATTR {
    auto all = hn::LoadU(d64, attention + begin);
#pragma GCC unroll 4
    for (size_t part = 1; part < 4; ++part) all = hn::And(all, hn::LoadU(d64, attention + begin + part * lanes / 2));
    return !hn::AllFalse(d64, hn::Eq(all, hn::Zero(d64)));
  };
  size_t begin = 0;
  for (; begin + 2 * lanes <= length; begin += 2 * lanes) {
    const bool may_lack = attention != nullptr && may_lack_tokens(begin);
    mask_vector(begin, may_lack);
    mask_vector(begin + lanes, may_lack);
  }
  for (; begin + lanes <= length; begin += lanes) mask_vector(begin, attention != nullptr);
  return begin;
}
#endif

void MaskRow(const MaskRule& rule, const int32_t* original, const int64_t* HWY_RESTRICT attention,
             const uint32_t* HWY_RESTRICT words, size_t length, int32_t* ids, int32_t* HWY_RESTRICT labels,
             uint8_t* HWY_RESTRICT drawn) {
  size_t begin = 0;
#if HWY_TARGET != HWY_SCALAR
  const auto mask = [&](auto vectors) {
    begin = vectors(rule, original, attention, words, length, ids, labels, drawn);
  };
  // A word is below 2^32 always; vectors compare 32 bits.
  if (rule.chosen_below <= UINT32_MAX) {
    switch (rule.special_tokens.size()) {
      case 0: mask(MaskVectors<0>); break;
      case 1: mask(MaskVectors<1>); break;
      case 2: mask(MaskVectors<2>); break;
      case 3: mask(MaskVectors<3>); break;
      case 4: mask(MaskVectors<4>); break;
      case 5: mask(MaskVectors<5>); break;
      default: mask(MaskVectors<kMostUnrolled + 1>);
    }
  }
#endif
  mask_positions(rule, original, attention, words, begin, length, ids, labels, drawn);
}

void MaskRow64(const MaskRule& rule, const int64_t* original, const int64_t* HWY_RESTRICT attention,
               const uint32_t* HWY_RESTRICT words, size_t length, int64_t* ids, int64_t* HWY_RESTRICT labels,
               uint8_t* HWY_RESTRICT drawn) {
  size_t begin = 0;
#if HWY_TARGET != HWY_SCALAR
  // By value: what is stored could be part of the rule, for all the compiler knows.
  const std::span<const int32_t> special_tokens = rule.special_tokens;
  const hn::ScalableTag<int64_t> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint32_t, decltype(d)> d_words;
  const size_t lanes = hn::Lanes(d);
  // Words and bounds are at most 2^32, so signed comparisons do.
  const auto mask_below = hn::Set(d, static_cast<int64_t>(rule.mask_below));
  const auto random_below = hn::Set(d, static_cast<int64_t>(rule.random_below));
  const auto chosen_below = hn::Set(d, static_cast<int64_t>(rule.chosen_below));
  const auto mask_token = hn::Set(d, int64_t{rule.mask_token});
  for (; begin + lanes <= length; begin += lanes) {
    const auto id = hn::LoadU(d, original + begin);
    const auto word = hn::BitCast(d, hn::PromoteTo(du, hn::LoadU(d_words, words + begin)));
    auto chosen = hn::Lt(word, chosen_below);
    if (attention != nullptr) chosen = NeAmong(chosen, hn::LoadU(d, attention + begin), hn::Zero(d));
    for (const int32_t special : special_tokens) chosen = NeAmong(chosen, id, hn::Set(d, int64_t{special}));
    StoreFates(d, id, chosen, LtAmong(chosen, word, mask_below), LtAmong(chosen, word, random_below), mask_token, begin,
               ids, labels, drawn);
  }
#endif
  mask_positions(rule, original, attention, words, begin, length, ids, labels, drawn);
}

// No vectors, but instructions that count bits.
size_t ListDrawn(std::span<const uint8_t> drawn, uint32_t* positions) {
  constexpr size_t kAtOnce = 4;
  uint32_t* next = positions;
  for (size_t byte = 0; byte < drawn.size(); byte += sizeof(uint64_t)) {
    uint64_t bits = 0;
    std::memcpy(&bits, drawn.data() + byte, sizeof bits);
    const auto count = static_cast<size_t>(std::popcount(bits));
    // Mostly there are few, and how many cannot be foreseen: some are written in any case.
    for (size_t i = 0; i < kAtOnce || i < count; ++i) {
      next[i] = static_cast<uint32_t>(8 * byte) + static_cast<uint32_t>(std::countr_zero(bits));
      bits &= bits - 1;
    }
    next += count;
  }
  return static_cast<size_t>(next - positions);
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace {

HWY_EXPORT(MaskRow);
HWY_EXPORT(MaskRow64);
HWY_EXPORT(ListDrawn);

void mask_row(const MaskRule& rule, const int32_t* original, const int64_t* attention, const uint32_t* words,
              size_t length, int32_t* ids, int32_t* labels, std::span<uint8_t> drawn) {
  std::fill(drawn.begin(), drawn.end(), uint8_t{0});
  HWY_DYNAMIC_DISPATCH(MaskRow)(rule, original, attention, words, length, ids, labels, drawn.data());
}

void mask_row(const MaskRule& rule, const int64_t* original, const int64_t* attention, const uint32_t* words,
              size_t length, int64_t* ids, int64_t* labels, std::span<uint8_t> drawn) {
  std::fill(drawn.begin(), drawn.end(), uint8_t{0});
  HWY_DYNAMIC_DISPATCH(MaskRow64)(rule, original, attention, words, length, ids, labels, drawn.data());
}

size_t list_drawn(std::span<const uint8_t> drawn, uint32_t* positions) {
  return HWY_DYNAMIC_DISPATCH(ListDrawn)(drawn, positions);
}

}  // namespace millrace
#endif
