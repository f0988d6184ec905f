// Compiled once for each instruction set that Highway knows here; see HWY_EXPORT at the end.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/mask_row.cc"
#include "ops/mask_row.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef MILLRACE_MASK_POSITIONS_ONCE
#define MILLRACE_MASK_POSITIONS_ONCE
namespace millrace {
namespace {

// Positions [begin, length), one at a time: the end of a row, and all of it where vectors do not help.
template <typename Id>
size_t mask_positions(const MaskRule& rule, const Id* original, const int64_t* attention, const uint32_t* words,
                      size_t begin, size_t length, Id* ids, Id* labels, uint32_t* random_positions) {
  constexpr Id kNoLabel = -100;
  size_t num_random = 0;
  for (size_t p = begin; p < length; ++p) {
    const Id id = original[p];
    const uint32_t word = words[p];
    bool chosen = word < rule.chosen_below && (attention == nullptr || attention[p] != 0);
    for (const int32_t special : rule.special_tokens) chosen = chosen && id != special;
    labels[p] = chosen ? id : kNoLabel;
    ids[p] = chosen && word < rule.mask_below ? static_cast<Id>(rule.mask_token) : id;
    if (chosen && word >= rule.mask_below && word < rule.random_below) {
      random_positions[num_random++] = static_cast<uint32_t>(p);
    }
  }
  return num_random;
}

}  // namespace
}  // namespace millrace
#endif

HWY_BEFORE_NAMESPACE();
namespace millrace {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;
#endif

size_t MaskRow(const MaskRule& rule, const int32_t* original, const int64_t* HWY_RESTRICT attention,
               const uint32_t* HWY_RESTRICT words, size_t length, int32_t* ids, int32_t* HWY_RESTRICT labels,
               uint32_t* HWY_RESTRICT random_positions) {
  size_t num_random = 0;
  size_t begin = 0;
#if HWY_TARGET != HWY_SCALAR
  // A word is below 2^32 always; vectors compare 32 bits.
  if (rule.chosen_below <= UINT32_MAX) {
    const hn::ScalableTag<int32_t> d;
    const hn::RebindToUnsigned<decltype(d)> du;
    const hn::Repartition<int64_t, decltype(d)> d64;
    const size_t lanes = hn::Lanes(d);
    const auto mask_below = hn::Set(du, static_cast<uint32_t>(rule.mask_below));
    const auto random_below = hn::Set(du, static_cast<uint32_t>(rule.random_below));
    const auto chosen_below = hn::Set(du, static_cast<uint32_t>(rule.chosen_below));
    const auto mask_token = hn::Set(d, rule.mask_token);
    const auto no_label = hn::Set(d, -100);
    const auto first_positions = hn::Iota(du, 0);
    for (; begin + lanes <= length; begin += lanes) {
      const auto id = hn::LoadU(d, original + begin);
      const auto word = hn::LoadU(du, words + begin);
      auto chosen = hn::RebindMask(d, hn::Lt(word, chosen_below));
      if (attention != nullptr) {
        const auto first = hn::BitCast(d, hn::LoadU(d64, attention + begin));
        const auto second = hn::BitCast(d, hn::LoadU(d64, attention + begin + lanes / 2));
        // Both halves of each 64-bit number, in order.
        const auto any = hn::Or(hn::ConcatEven(d, second, first), hn::ConcatOdd(d, second, first));
        chosen = hn::And(chosen, hn::Ne(any, hn::Zero(d)));
      }
      for (const int32_t special : rule.special_tokens) chosen = hn::And(chosen, hn::Ne(id, hn::Set(d, special)));
      const auto masked = hn::And(chosen, hn::RebindMask(d, hn::Lt(word, mask_below)));
      const auto drawn = hn::AndNot(masked, hn::And(chosen, hn::RebindMask(d, hn::Lt(word, random_below))));
      hn::StoreU(hn::IfThenElse(chosen, id, no_label), d, labels + begin);
      hn::StoreU(hn::IfThenElse(masked, mask_token, id), d, ids + begin);
      // Without a branch, which could not be foreseen, and all lanes at once: to store some takes several times as
      // long.
      const auto positions = hn::Add(first_positions, hn::Set(du, static_cast<uint32_t>(begin)));
      hn::StoreU(hn::Compress(positions, hn::RebindMask(du, drawn)), du, random_positions + num_random);
      num_random += hn::CountTrue(d, drawn);
    }
  }
#endif
  return num_random +
         mask_positions(rule, original, attention, words, begin, length, ids, labels, random_positions + num_random);
}

size_t MaskRow64(const MaskRule& rule, const int64_t* original, const int64_t* HWY_RESTRICT attention,
                 const uint32_t* HWY_RESTRICT words, size_t length, int64_t* ids, int64_t* HWY_RESTRICT labels,
                 uint32_t* HWY_RESTRICT random_positions) {
  size_t num_random = 0;
  size_t begin = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<int64_t> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint32_t, decltype(d)> d_words;
  const size_t lanes = hn::Lanes(d);
  // Words and bounds are at most 2^32, so signed comparisons do.
  const auto mask_below = hn::Set(d, static_cast<int64_t>(rule.mask_below));
  const auto random_below = hn::Set(d, static_cast<int64_t>(rule.random_below));
  const auto chosen_below = hn::Set(d, static_cast<int64_t>(rule.chosen_below));
  const auto mask_token = hn::Set(d, int64_t{rule.mask_token});
  const auto no_label = hn::Set(d, int64_t{-100});
  for (; begin + lanes <= length; begin += lanes) {
    const auto id = hn::LoadU(d, original + begin);
    const auto word = hn::BitCast(d, hn::PromoteTo(du, hn::LoadU(d_words, words + begin)));
    auto chosen = hn::Lt(word, chosen_below);
    if (attention != nullptr) chosen = hn::And(chosen, hn::Ne(hn::LoadU(d, attention + begin), hn::Zero(d)));
    for (const int32_t special : rule.special_tokens) {
      chosen = hn::And(chosen, hn::Ne(id, hn::Set(d, int64_t{special})));
    }
    const auto masked = hn::And(chosen, hn::Lt(word, mask_below));
    const auto drawn = hn::AndNot(masked, hn::And(chosen, hn::Lt(word, random_below)));
    hn::StoreU(hn::IfThenElse(chosen, id, no_label), d, labels + begin);
    hn::StoreU(hn::IfThenElse(masked, mask_token, id), d, ids + begin);
    if (!hn::AllFalse(d, drawn)) {
      uint8_t bits[HWY_MAX(8, hn::MaxLanes(d) / 8)] = {};
      hn::StoreMaskBits(d, drawn, bits);
      for (size_t lane = 0; lane < lanes; ++lane) {
        if ((bits[lane / 8] >> (lane % 8) & 1) != 0)
          random_positions[num_random++] = static_cast<uint32_t>(begin + lane);
      }
    }
  }
#endif
  return num_random +
         mask_positions(rule, original, attention, words, begin, length, ids, labels, random_positions + num_random);
}

}  // namespace HWY_NAMESPACE
}  // namespace millrace
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace {

HWY_EXPORT(MaskRow);
HWY_EXPORT(MaskRow64);

size_t mask_row(const MaskRule& rule, const int32_t* original, const int64_t* attention, const uint32_t* words,
                size_t length, int32_t* ids, int32_t* labels, uint32_t* random_positions) {
  return HWY_DYNAMIC_DISPATCH(MaskRow)(rule, original, attention, words, length, ids, labels, random_positions);
}

size_t mask_row(const MaskRule& rule, const int64_t* original, const int64_t* attention, const uint32_t* words,
                size_t length, int64_t* ids, int64_t* labels, uint32_t* random_positions) {
  return HWY_DYNAMIC_DISPATCH(MaskRow64)(rule, original, attention, words, length, ids, labels, random_positions);
}

}  // namespace millrace
#endif
