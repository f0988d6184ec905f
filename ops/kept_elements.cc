#include "ops/kept_elements.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "formats/storage/atomic_directory.h"
#include "formats/storage/folder_lock.h"
#include "ops/elements_output.h"
#include "ops/saved_elements.h"

namespace millrace {
namespace {

/// What is known of the folder, by all runs in one pipeline.
class KeptFolder final : public SharedByRuns {
 public:
  // `name`: of the operator.
  KeptFolder(std::string_view name, SchemaPtr schema, Cardinality cardinality)
      : name_(name), schema_(std::move(schema)), cardinality_(cardinality) {}

  // Blocks. Before any run.
  void set(std::string folder, uint64_t digest) {
    folder_ = std::move(folder);
    digest_ = digest;
    make_folder(folder_);
    look();
  }
  bool is_set() const { return !folder_.empty(); }
  int64_t memory_bytes() const { return index_ == nullptr ? 0 : index_->memory_bytes(); }

  // The elements of a path, or null: they are to be calculated.
  std::shared_ptr<const ElementsIndex> find(uint64_t path) {
    const std::lock_guard lock(mutex_);
    if (problem_ != nullptr) throw ErrorException(*problem_);
    path_ = path;
    return index_ != nullptr && index_->about().path == path ? index_ : nullptr;
  }

  // Writes the elements of the path that was looked for last; null: somebody else does, or they are not in order.
  // `self`: this, for what outlives the run.
  std::shared_ptr<ElementsOutput> begin_writing(const std::shared_ptr<KeptFolder>& self, const StageContext& context) {
    const std::lock_guard lock(mutex_);
    // One that was given up may still be removing its files.
    if (lock_ == nullptr || !output_.expired() || !context.disk->ordered) return nullptr;
    auto writer = std::make_unique<ElementsWriter>(
        folder_, schema_,
        ElementsIndex::About{.written_by = name_, .digest = digest_, .path = *path_, .generation = generation_++},
        lock_);
    auto output = std::make_shared<ElementsOutput>(context, std::move(writer),
                                                   [self](std::shared_ptr<const ElementsIndex> index) {
                                                     const std::lock_guard committed(self->mutex_);
                                                     self->index_ = std::move(index);
                                                   });
    output_ = output;
    return output;
  }

  // Blocks. Reads what the folder holds now and, where that is not what is wanted, becomes who may write it, unless
  // somebody else is.
  void look() {
    // Before it reads: whoever wrote may have come to the end just now.
    std::shared_ptr<FolderLock> lock = FolderLock::try_lock(folder_);
    const std::shared_ptr<const ElementsIndex> there = read();
    const bool whole = there != nullptr && take(there);
    if (lock == nullptr) return;
    remove_other_elements(folder_, there.get());
    if (whole) return;
    const std::lock_guard locked(mutex_);
    lock_ = std::move(lock);
    generation_ = next_generation(folder_);
  }
  // The same in a running pipeline. What is wrong is told in the next epoch.
  void look_again() noexcept {
    try {
      look();
    } catch (const ErrorException& exception) {
      const std::lock_guard lock(mutex_);
      problem_ = std::make_shared<const Error>(exception.error());
    } catch (...) {  // NOLINT(bugprone-empty-catch): no memory to look with; the next epoch looks again
    }
  }
  bool may_write() {
    const std::lock_guard lock(mutex_);
    return lock_ != nullptr;
  }

 private:
  std::shared_ptr<const ElementsIndex> read() const {
    InlineExecutor executor;
    LocalStorage disk(executor);
    return ElementsIndex::find(disk, folder_);
  }

  // Whether they are what is wanted.
  bool take(const std::shared_ptr<const ElementsIndex>& index) {
    const ElementsIndex::About& about = index->about();
    if (about.written_by != name_) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("'{}' holds {} elements that {} wrote, not {}; choose another folder", folder_,
                                       index->num_elements(), about.written_by, name_));
    }
    const std::lock_guard lock(mutex_);
    if (about.digest != digest_ || !(*index->schema() == *schema_)) return false;
    if (path_ && about.path != *path_) return false;
    if (cardinality_.is_known() && cardinality_.count() != index->num_elements()) return false;
    index_ = index;
    return true;
  }

  const std::string name_;
  const SchemaPtr schema_;
  const Cardinality cardinality_;
  std::string folder_;
  uint64_t digest_ = 0;

  std::mutex mutex_;
  std::optional<uint64_t> path_;  // that was looked for last
  std::shared_ptr<const ElementsIndex> index_;
  std::shared_ptr<FolderLock> lock_;  // null: this pipeline may not write
  uint64_t generation_ = 0;
  std::shared_ptr<const Error> problem_;
  std::weak_ptr<ElementsOutput> output_;
};

/// Passes elements on, and writes them.
class KeepStage final : public Stage {
 public:
  // `output`: null where they are not written. `place`: of the first element.
  KeepStage(std::string_view kind, std::unique_ptr<Stage> input, std::shared_ptr<ElementsOutput> output, int64_t place,
            int64_t epoch)
      : kind_(kind), input_(std::move(input)), output_(std::move(output)), place_(place), epoch_(epoch) {}
  ~KeepStage() override { give_up(); }

  Poll next(Block& out) override {
    if (ended_) return end();
    if (output_ != nullptr && !output_->has_room()) return Poll::kPending;
    const Poll poll = input_->next(out);
    if (poll == Poll::kEnd) {
      ended_ = true;
      if (output_ != nullptr) output_->finish();
      return end();
    }
    if (poll != Poll::kBlock) return poll;
    const auto is_error = [](const ElementError& entry) { return !entry.is_note(); };
    if (std::any_of(out.errors().begin(), out.errors().end(), is_error)) give_up();
    if (output_ != nullptr) output_->append(out);
    out.cursor = make_cursor(kind_, {place_}, {out.cursor});
    out.epoch = std::max(out.epoch, epoch_);
    place_ += static_cast<int64_t>(out.num_elements());
    return poll;
  }

 private:
  Poll end() const { return output_ == nullptr || output_->finished() ? Poll::kEnd : Poll::kPending; }
  void give_up() {
    if (output_ != nullptr) output_->close();
    output_ = nullptr;
  }

  const std::string_view kind_;
  const std::unique_ptr<Stage> input_;
  std::shared_ptr<ElementsOutput> output_;
  int64_t place_;
  const int64_t epoch_;
  bool ended_ = false;
};

}  // namespace

KeptElementsOperator::KeptElementsOperator(SchemaPtr schema, std::string_view name, std::string directory,
                                           bool one_for_each_digest, StreamIdentity identity)
    : StageOperator(std::move(schema)),
      directory_(std::move(directory)),
      one_for_each_digest_(one_for_each_digest),
      identity_(std::move(identity)) {
  if (directory_.empty()) {
    throw ErrorException(ErrorCode::kInvalidArgument, fmt::format("{}: directory is empty", name));
  }
  if (identity_.cardinality.is_infinite()) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{}: the input has no end, so nothing could ever be kept in '{}'; put repeat "
                                     "behind it",
                                     name, directory_));
  }
}

size_t KeptElementsOperator::num_lanes() const { return SavedElementsStage::kNumLanes; }

std::shared_ptr<SharedByRuns> KeptElementsOperator::share() const {
  return std::make_shared<KeptFolder>(name(), schema(), identity_.cardinality);
}

int64_t KeptElementsOperator::prepare(SharedByRuns* shared, const Preparation& with) const {
  auto& folder = dynamic_cast<KeptFolder&>(*shared);
  const uint64_t digest = identity_.digest(with.storage);
  folder.set(one_for_each_digest_ ? fmt::format("{}/{:016x}", directory_, digest) : directory_, digest);
  return folder.memory_bytes();
}

std::unique_ptr<Stage> KeptElementsOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  const auto folder = std::dynamic_pointer_cast<KeptFolder>(context.shared);
  if (folder == nullptr || !folder->is_set()) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{} with a directory cannot be in a dataset that a function makes: all of them "
                                     "would write to one folder",
                                     name()));
  }
  const int64_t place = context.state == nullptr ? 0 : numbers_of(*context.state, name(), 1)[0];
  if (auto index = folder->find(context.iteration.path)) {
    return std::make_unique<SavedElementsStage>(name(), std::move(index), place, context.disk->storage, context);
  }
  StageContext first_epoch = context;
  first_epoch.iteration.epoch = 0;
  std::unique_ptr<Stage> input;
  std::shared_ptr<ElementsOutput> output;
  if (context.state == nullptr) {
    input = inputs[0](first_epoch);
    output = folder->begin_writing(folder, context);
    // Whoever wrote may have come to the end, for the next epoch.
    if (output == nullptr && !folder->may_write()) {
      context.disk->output.submit([folder] { folder->look_again(); });
    }
  } else if (context.state->inputs.empty()) {
    // The folder was whole when the state was made.
    input = open_at(inputs[0], first_epoch, Cursor{nullptr, place});
  } else {
    input = open_input(inputs[0], first_epoch);
  }
  return std::make_unique<KeepStage>(name(), std::move(input), std::move(output), place, context.iteration.epoch);
}

}  // namespace millrace
