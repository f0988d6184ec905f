#include "millrace/ops/flow/damage_budget.h"

#include <algorithm>

#include <fmt/format.h>

#include "millrace/formats/columnar/block_builder.h"

namespace millrace {
namespace {

// Of fewer records a share says nothing: the first one may be the damaged one.
constexpr int64_t kFewestRecords = 1000;

}  // namespace

DamageBudgetStage::DamageBudgetStage(std::unique_ptr<Stage> input, const DamagePolicy& policy,
                                     const StageContext& context)
    : policy_(policy), input_(std::move(input)) {
  if (context.state == nullptr || context.state->kind != kKind) return;
  const std::vector<int64_t>& numbers = numbers_of(*context.state, kKind, 5);
  read_ = numbers[0];
  skipped_.records = numbers[1];
  skipped_.bytes = numbers[2];
  skipped_.regions_of_unknown_records = numbers[3];
  unknown_end_ = numbers[4] != 0;
}

// The error in the place of a region with which the budget ends, or null.
std::shared_ptr<const Error> DamageBudgetStage::exceeded_by(const Error& note) const {
  const bool unknown = skipped_.regions_of_unknown_records > 0;
  const int64_t all = read_ + skipped_.records;
  const auto share = [&] {
    return static_cast<double>(skipped_.records) / static_cast<double>(std::max(all, kFewestRecords));
  };
  std::string limit;
  if (policy_.max_records && (unknown || skipped_.records > *policy_.max_records)) {
    limit = fmt::format("{} records", *policy_.max_records);
  } else if (policy_.max_bytes && (unknown_end_ || skipped_.bytes > *policy_.max_bytes)) {
    limit = fmt::format("{} bytes", *policy_.max_bytes);
  } else if (policy_.max_share && (unknown || share() > *policy_.max_share)) {
    limit = fmt::format("{} of the records", *policy_.max_share);
  } else {
    return nullptr;
  }
  Error error{
      .code = ErrorCode::kDamageBudget,
      .message = fmt::format(
          "{} records{} and {} bytes{} are damaged of {} records so far in this epoch, the budget is {}; last {}",
          skipped_.records, unknown ? " and an unknown number more" : "", skipped_.bytes,
          unknown_end_ ? " and an unknown number more" : "", all, limit, note.message),
      .shard = note.shard,
      .offset = note.offset,
      .record = note.record,
      .lost_bytes = static_cast<int64_t>(note.skipped->bytes())};
  return std::make_shared<const Error>(std::move(error));
}

Poll DamageBudgetStage::next(Block& out) {
  if (taken_ == block_.num_elements()) {
    taken_ = 0;
    block_ = Block();
    const Poll poll = input_->next(out);
    if (poll != Poll::kBlock) return poll;
    // The counts that the state has are those in front of the block.
    out.cursor = make_cursor(
        kKind, {read_, skipped_.records, skipped_.bytes, skipped_.regions_of_unknown_records, unknown_end_ ? 1 : 0},
        {out.cursor});
    if (out.errors().empty()) {
      read_ += static_cast<int64_t>(out.num_elements());
      return poll;
    }
    block_ = std::move(out);
  }
  size_t at = taken_;
  for (const ElementError* error = block_.next_error(at); error != nullptr; error = block_.next_error(at)) {
    read_ += static_cast<int64_t>(error->element - at);
    at = error->element + 1;
    if (!error->is_note()) continue;
    skipped_.add(*error->error->skipped);
    unknown_end_ = unknown_end_ || !error->error->skipped->end_is_known;
    auto exceeded = exceeded_by(*error->error);
    if (exceeded == nullptr) continue;
    // What stands before it goes out first; the note is counted.
    out = block_.slice(taken_, at - taken_);
    out.replace_error(at - 1 - taken_, std::move(exceeded));
    taken_ = at;
    return Poll::kBlock;
  }
  read_ += static_cast<int64_t>(block_.num_elements() - at);
  out = taken_ == 0 ? std::move(block_) : block_.slice(taken_, block_.num_elements() - taken_);
  block_ = Block();
  taken_ = 0;
  return Poll::kBlock;
}

DamageBudgetOperator::DamageBudgetOperator(SchemaPtr input, const DamagePolicy& policy)
    : StageOperator(std::move(input)), policy_(policy) {
  policy.check();
  if (policy.has_budget()) return;
  throw ErrorException(ErrorCode::kInvalidArgument,
                       "damage_budget: needs a limit, max_records, max_bytes or max_share, with action = kSkip");
}

std::unique_ptr<Stage> DamageBudgetOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  return std::make_unique<DamageBudgetStage>(open_input(inputs[0], context), policy_, context);
}

std::unique_ptr<Stage> open_below_damage_budget(const OpenStage& open, const StageContext& context) {
  if (context.state == nullptr || context.state->kind != DamageBudgetStage::kKind) return open(context);
  return open_input(open, context);
}

}  // namespace millrace
