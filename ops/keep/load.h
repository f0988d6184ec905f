#pragma once

#include <memory>
#include <string>

#include "millrace/formats/elements/index.h"
#include "millrace/ops/arguments.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// Source: the elements that `save` (or a `cache` or `snapshot` with a directory) wrote to a folder, in the order in
/// which they came, with the features that they had. The number of elements is known. Every block is checked when it
/// is read; damage is an error that names file and offset, in the place of the elements that are lost.
///
/// The description of the folder is read when the dataset is described. What is written to a folder of this machine
/// after that takes nothing away from the dataset: its files stay as long as it lives. In another storage they are
/// gone: `io`. A state is the number of the next element; it goes on with the same elements in another folder too, and
/// is refused with others.
///
///     Dataset::load("preprocessed").shuffle(10'000).repeat().batch(128)
class LoadOperator final : public StageOperator {
 public:
  /// `local`: whether the folder is one of this machine, wherever other sources read (`StartOptions::storage`).
  LoadOperator(std::shared_ptr<const ElementsIndex> index, bool local);
  std::string_view name() const override { return "load"; }
  Cardinality cardinality(std::span<const Cardinality>) const override;
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const override;
  OperatorTraits traits() const override { return {.checkpoint_blocker = ""}; }
  size_t num_lanes() const override;
  uint64_t content_digest() const override { return digest_; }
  /// The description.
  int64_t memory_needed(std::span<const Cardinality>) const override { return index_->memory_bytes(); }

 private:
  const std::shared_ptr<const ElementsIndex> index_;
  const bool local_;
  const uint64_t digest_;
};

/// What `Dataset::load` is called with.
struct LoadArguments {
  std::string directory;

  static constexpr auto fields() {
    using A = LoadArguments;
    return describe<A>("load", field::speed<&A::directory>.required().as_bytes());
  }
};

}  // namespace millrace
