#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace {

/// Whether rows may pass an operator as bytes that are parsed after it, where they were parsed before it, without a
/// change in what it gives before the first row that does not parse.
enum class DeferParse : uint8_t {
  kNever,
  kAnywhere,      ///< an error takes the place of a row in it, as any other
  kBeforeErrors,  ///< what is before the first error is the same, what follows is not
  kInBatches,     ///< the same, of rows of fixed shapes, which it gathers (`Operator::of_deferred_rows`)
  kInside,        ///< it parses records itself (`Operator::of_deferred_rows`, which must give it then)
};

/// What an operator makes values of.
enum class Parses : uint8_t {
  kNothing,
  kRecords,  ///< of the one feature of its input, which are whole records
  kValues,   ///< of one feature, beside which others stay; `MapOperator::fused`
};

/// What whoever runs a pipeline relies on of an operator, said in one place; what proves each of it:
/// docs/decisions/operator_traits.md. Each default is what is safe, for operators that come by
/// `Dataset::from_operator`.
struct OperatorTraits {
  /// Its work calls no function of a user, nor waits for anything: such as a lock that the caller of `next()` holds,
  /// who may do this work while it waits.
  bool is_nonblocking = false;
  /// It hands on what a source has put into a `StageContext::row_store`, or is such a source: each row at most once, in
  /// its input's order, as the same view, and none is read after it was handed on. A stage that keeps rows long, such
  /// as a shuffle, then need not copy them itself. Its inputs put nothing there otherwise.
  bool forwards_row_views = false;
  /// Why a pipeline with this operator cannot be saved; empty for one whose stages give states with their blocks and go
  /// on from them (`StageContext::state`). Of no meaning for maps, which have no state.
  std::string_view checkpoint_blocker = "its stages have no states";

  /// Each element that it gives is one of its input's, as it is; which, in what order and how often does not depend on
  /// their values.
  bool is_row_passthrough = false;
  /// It gives rows in another order than its input.
  bool reorders_rows = false;
  /// Error elements end in it, and the stream goes on.
  bool swallows_errors = false;
  /// It keeps rows, or gathers them, and so copies them.
  bool copies_rows = false;
  /// Its stages call no function of a user, and compute nothing for long. Who waits for blocks may then be woken for
  /// those of some calls at a time.
  bool is_light = false;
  /// What it makes of a row depends on the row's number (`Block::first_row`). A map for which it does not, and that is
  /// one to one, has no place in states of pipelines, so that a rewrite may move it.
  bool uses_row_numbers = true;
  DeferParse defer_parse = DeferParse::kNever;
  Parses parses = Parses::kNothing;
  bool parses_batches = false;  ///< of such bytes, not rows
  /// What an element of it takes by guess, where its schema does not tell: pictures take many times their bytes in a
  /// file. Blocks are cut before it by that.
  int64_t guessed_bytes = 0;

  /// It gives its input as it is, and only cuts the plan: the ring before it has that many slots more.
  std::optional<size_t> prefetched = {};
  /// Its inputs are open one after the other, not at the same time.
  bool opens_one_input = false;
  /// It does something at the end of its input that is lost when nobody asks for it: an operator after it that ends
  /// before its inputs do asks them for one element more.
  bool wants_end = false;
  /// It pads features of its input that have dimensions.
  bool pads = false;
  /// The feature of its batches that is 0 where one is padding; empty: it puts them after the values of each row.
  std::string_view zero_in_padding = {};
};

}  // namespace millrace
