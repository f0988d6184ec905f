#include "millrace/ops/flow/unique.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "millrace/ops/flow/digest_set.h"
#include "millrace/ops/place_checks.h"

namespace millrace {
namespace {

Digest digest_of(const void* bytes, size_t size, uint64_t seed) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, size, seed);
  return {hash.low64, hash.high64};
}

// Of every size: whether all elements of a block have one shape differs from block to block.
uint64_t digest_of_shape(const Column& column, size_t element) {
  if (column.is_ragged()) {
    const std::span<const int64_t> sizes = column.sizes(element);
    return XXH3_64bits(sizes.data(), sizes.size_bytes());
  }
  uint64_t digest = 0;
  for (size_t d = 0; d < static_cast<size_t>(column.rank()); ++d) {
    const std::array<uint64_t, 2> pair = {digest, static_cast<uint64_t>(column.size(element, d))};
    digest = XXH3_64bits(pair.data(), sizeof pair);
  }
  return digest;
}

Digest digest_of_value(const Column& column, size_t element) {
  const uint64_t shape = digest_of_shape(column, element);
  if (column.dtype() != DType::kBytes) {
    return digest_of(column.data(element), static_cast<size_t>(column.num_values(element)) * size_of(column.dtype()),
                     shape);
  }
  const std::span<const std::string_view> strings = column.values<std::string_view>(element);
  if (strings.size() == 1) return digest_of(strings[0].data(), strings[0].size(), shape);
  Digest all = {shape, strings.size()};
  for (const std::string_view text : strings) {
    const Digest one = digest_of(text.data(), text.size(), 0);
    const std::array<Digest, 2> pair = {all, one};
    all = digest_of(pair.data(), sizeof pair, 0);
  }
  return all;
}

class UniqueStage final : public Stage {
 public:
  static constexpr std::string_view kKind = "unique";

  UniqueStage(const OpenStage& open, size_t column, const StageContext& context)
      : column_(column), context_(context), seen_(context.pool, context.memory_budget() / 4 * 3) {
    if (context_.state != nullptr) {
      to_see_again_ = elements_to_read_again(kKind, numbers_of(*context_.state, kKind, 1)[0]);
    }
    context_.state = nullptr;  // which elements were seen is known only from the beginning on
    input_ = open(context_);
  }

  // Throws `kMemoryBudget`.
  Poll next(Block& out) override {
    if (refused_ != nullptr) throw ErrorException(*refused_);
    const Poll poll = input_->next(out);
    if (poll == Poll::kEnd && to_see_again_ > 0) refuse_ended_input(kKind);
    if (poll != Poll::kBlock) return poll;
    const auto num_elements = static_cast<int64_t>(out.num_elements());
    const auto again = static_cast<size_t>(std::min(to_see_again_, num_elements));
    to_see_again_ -= static_cast<int64_t>(again);
    // After what a resumed run sees again, so that the block begins where the state was taken.
    out.cursor = make_cursor(kKind, {position_ + static_cast<int64_t>(again)});
    position_ += num_elements;

    std::vector<size_t> chosen;
    chosen.reserve(out.num_elements());
    const Column& column = out.column(column_);
    for (size_t i = 0; i < out.num_elements() && refused_ == nullptr; ++i) {
      const bool is_error = !out.errors().empty() && out.error_at(i) != nullptr;
      const auto found = is_error ? DigestSet::Insert::kNew : seen_.insert(digest_of_value(column, i));
      if (found == DigestSet::Insert::kFull) refused_ = refuse(out, i);
      if (found == DigestSet::Insert::kNew && i >= again) chosen.push_back(i);
    }
    if (chosen.empty()) {
      if (refused_ != nullptr) throw ErrorException(*refused_);
      // There may never be another value: somebody who wants to stop all must get his turn.
      out = Block();
      context_.waker.wake();
      return Poll::kPending;
    }
    if (chosen.size() == out.num_elements()) return poll;
    const bool one_run = chosen.back() - chosen.front() + 1 == chosen.size();
    const Cursor begin = out.cursor;
    out = one_run ? out.slice(chosen.front(), chosen.size()) : out.select(chosen, context_.pool);
    out.cursor = begin;
    return poll;
  }

 private:
  std::shared_ptr<const Error> refuse(const Block& block, size_t element) const {
    Error error{.code = ErrorCode::kMemoryBudget,
                .message = fmt::format("with {} values seen, their table of {} bytes cannot be made twice as large "
                                       "within three quarters of the memory budget of {} bytes",
                                       seen_.size(), seen_.bytes(), context_.memory->budget())};
    block.locate(element, error);
    return std::make_shared<const Error>(std::move(error));
  }

  size_t column_;
  StageContext context_;
  std::unique_ptr<Stage> input_;
  DigestSet seen_;
  int64_t position_ = 0;      // elements read
  int64_t to_see_again_ = 0;  // of them, when resumed: those that were read before
  std::shared_ptr<const Error> refused_;
};

}  // namespace

UniqueOperator::UniqueOperator(SchemaPtr schema, const std::string& feature)
    : StageOperator(std::move(schema)), column_(static_cast<size_t>(this->schema()->column(feature))) {}

std::unique_ptr<Stage> UniqueOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  return std::make_unique<UniqueStage>(inputs[0], column_, context);
}

}  // namespace millrace
