#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "millrace/formats/elements/elements_folder.h"
#include "millrace/formats/storage/local_disk.h"
#include "millrace/formats/storage/opened_files.h"
#include "millrace/ops/keep/elements_output.h"
#include "millrace/ops/operator.h"

namespace millrace {

/// The folder of a PersistedElementsOperator in one pipeline, and what is known of it by all runs. Any thread.
class PersistedFolder final : public SharedByRuns {
 public:
  /// `name`: of the operator, whose elements have the schema, with their number where that is known.
  PersistedFolder(std::string_view name, SchemaPtr schema, Cardinality cardinality);

  /// Blocks. Before any run. `digest`: of the dataset. `storage`: where its sources read.
  void set(std::string folder, uint64_t digest, Storage& storage, const StorageWait& wait);
  bool is_set() const { return !folder_.empty(); }
  int64_t memory_bytes() const;

  /// The elements of a path, or null: they are to be calculated.
  std::shared_ptr<const ElementsIndex> find(uint64_t path);
  /// What it takes to write the folder.
  struct Permit {
    std::shared_ptr<ElementsFolder> folder;  ///< null: there is no need to, or somebody else does
    uint64_t generation = 0;
  };
  /// Reads what the folder holds now. Blocks. Throws what is wrong with it. `to_write`: false leaves the lock to
  /// others, and gives no permit.
  [[nodiscard]] Permit look(Storage& storage, bool to_write, const StorageWait& wait = {});
  /// Writes the elements of the path that was looked for last. `self`: this, for what outlives the run.
  static std::shared_ptr<ElementsOutput> begin_writing(const std::shared_ptr<PersistedFolder>& self, Permit permit,
                                                       const StageContext& context);
  /// Why the elements that this pipeline calculates are not kept, so far.
  void set_unkept(std::string why);
  /// The folder is written, with this many elements.
  void count(int64_t elements) { num_elements_.store(elements, std::memory_order_relaxed); }
  /// A line that the folder is not whole, and why; empty where it is, by whomever, and where nothing of it was asked
  /// for. Blocks.
  std::string unfinished() const override;
  /// Elements that it will have; below 0: that is not certain.
  int64_t most_elements() const { return cardinality_.is_known() ? cardinality_.count() : -1; }

  /// The disk for the stages that the elements come from: it knows who wants to know which files they open.
  LocalDisk* disk_of_input(const LocalDisk& disk);

 private:
  std::shared_ptr<const ElementsIndex> found() const;
  bool take(const std::shared_ptr<const ElementsIndex>& index, Storage& storage, const StorageWait& wait);
  void commit(ElementsWriter& written, Storage& storage);

  const std::string name_;
  const SchemaPtr schema_;
  const Cardinality cardinality_;
  std::string folder_;
  uint64_t digest_ = 0;

  std::atomic<int64_t> num_elements_{0};

  mutable std::mutex mutex_;
  std::string unkept_;
  std::optional<uint64_t> path_;  // that was looked for last
  std::shared_ptr<const ElementsIndex> index_;
  std::optional<OpenedFiles> opened_;
  std::optional<LocalDisk> disk_;
};

}  // namespace millrace
