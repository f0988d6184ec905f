#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "millrace/ops/operator.h"

namespace millrace {

/// What a dataset gives, as far as that is known without running it: by which elements that were written are told
/// from those of another dataset.
struct StreamIdentity {
  /// Of the operators as written, with arguments and seeds, and of the files that they read. Blocks;
  /// what the wait throws passes.
  std::function<uint64_t(Storage&, const StorageWait&)> digest = {};
  Cardinality cardinality = Cardinality::unknown();
};

/// Keeps its input's elements in a folder: the first epoch that is read to its end writes them while they pass, later
/// epochs, and later runs, read them from there. The rules for both are those of `CacheOperator`: every epoch gives the
/// elements of the first one, whether they are calculated or read.
///
/// A folder is read when it is whole and digest, features and number of elements agree; one that this operator wrote
/// for another dataset is written anew, one that somebody else wrote is refused. What is written takes its place when
/// all of it is on the disk. One pipeline at a time writes a folder; others calculate, and look again in each epoch.
/// An epoch with an element that is an error is not kept, nor is one of a pipeline that runs with `ordered = false`. A
/// disk that is full, and damage that is found when elements are read, are errors.
///
/// State: the number of the next element and, as long as elements are calculated, the place in the input. A resumed
/// pipeline reads on from there where the folder is whole, else calculates on, and writes in its next epoch.
class PersistedElementsOperator : public StageOperator {
 public:
  Cardinality cardinality(std::span<const Cardinality> inputs) const override { return inputs[0]; }
  std::unique_ptr<Stage> open(std::vector<OpenStage> inputs, const StageContext& context) const final;
  std::shared_ptr<SharedByRuns> share() const final;
  int64_t prepare(SharedByRuns* shared, const Preparation& with) const final;
  OperatorTraits traits() const override { return {.checkpoint_blocker = "", .wants_end = true}; }
  size_t num_lanes() const final;
  bool lanes_run_inputs() const final { return false; }
  std::string_view work_in_lanes() const final { return "read"; }

 protected:
  /// `one_for_each_digest`: the directory has a folder for each dataset, by its digest; otherwise it is the folder.
  PersistedElementsOperator(SchemaPtr schema, std::string_view name, std::string directory, bool one_for_each_digest,
                            StreamIdentity identity);

 private:
  const std::string directory_;
  const bool one_for_each_digest_;
  const StreamIdentity identity_;
};

}  // namespace millrace
