#include "millrace/ops/keep/persisted_elements.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "millrace/formats/storage/closable_callback.h"
#include "millrace/formats/storage/remote/routed_storage.h"
#include "millrace/ops/keep/persisted_folder.h"
#include "millrace/ops/keep/reported_notes.h"
#include "millrace/ops/keep/saved_elements.h"

namespace millrace {
namespace {

/// Passes elements on, and writes them.
class KeepStage final : public Stage {
 public:
  // `output`: null where they are not written to the folder. `place`: of the first element.
  KeepStage(std::string_view kind, std::unique_ptr<Stage> input, std::shared_ptr<PersistedFolder> folder,
            std::shared_ptr<ElementsOutput> output, int64_t place, const StageContext& context)
      : kind_(kind),
        input_(std::move(input)),
        folder_(std::move(folder)),
        output_(std::move(output)),
        place_(place),
        epoch_(context.iteration.epoch),
        pool_(context.pool) {}
  ~KeepStage() override { give_up(); }

  Poll next(Block& out) override {
    while (!ended_ && (held_.empty() || is_last_expected())) {
      if (output_ != nullptr && held_.empty() && !output_->has_room()) return Poll::kPending;
      try {
        if (take() == Poll::kPending) return Poll::kPending;
      } catch (...) {
        if (held_.empty()) throw;
        failure_ = std::current_exception();  // of the element after those that are held
        ended_ = true;
        give_up();
      }
    }
    if (!held_.empty()) {
      out = std::move(held_.front());
      held_.erase(held_.begin());
      return Poll::kBlock;
    }
    if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
    return output_ == nullptr || output_->finished() ? Poll::kEnd : Poll::kPending;
  }

 private:
  // A block of the input, or its end.
  Poll take() {
    Block block;
    const Poll poll = input_->next(block);
    if (poll == Poll::kEnd) {
      ended_ = true;
      if (output_ != nullptr) finish();
    }
    if (poll != Poll::kBlock) return poll;
    if (output_ != nullptr) keep(block);
    block.cursor = make_cursor(kind_, {place_}, {block.cursor});
    block.epoch = std::max(block.epoch, epoch_);
    place_ += static_cast<int64_t>(block.num_elements());
    if (drop_reported_notes(block, epoch_, pool_)) held_.push_back(std::move(block));
    return poll;
  }

  void keep(const Block& block) {
    const auto is_error = [](const ElementError& entry) { return !entry.is_note(); };
    if (std::any_of(block.errors().begin(), block.errors().end(), is_error)) {
      folder_->set_unkept("one of its elements is an error");
      return give_up();
    }
    output_->append(block);
    num_elements_ += static_cast<int64_t>(block.num_elements() - block.errors().size());
    folder_->count(num_elements_);
  }

  // Whether so many elements were written as are expected: who has had the last one need not ask for the end. But a
  // number in a file's name or of `assert_cardinality` is a promise, and more than it says are an error: so the last
  // ones are given when the input has said what comes after them.
  bool is_last_expected() const { return output_ != nullptr && num_elements_ == folder_->most_elements(); }

  void finish() {
    folder_->set_unkept("its files could not be brought to the disk");  // until they are
    output_->finish();
  }

  void give_up() {
    if (output_ != nullptr) output_->close();
    output_ = nullptr;
  }

  const std::string_view kind_;
  const std::unique_ptr<Stage> input_;
  const std::shared_ptr<PersistedFolder> folder_;
  std::shared_ptr<ElementsOutput> output_;
  int64_t place_;
  int64_t num_elements_ = 0;  // that were written
  const int64_t epoch_;
  BufferPool& pool_;
  bool ended_ = false;
  std::vector<Block> held_;  // to be given; more than one only of the last elements
  std::exception_ptr failure_;
};

// What was written, from `place` on.
std::unique_ptr<Stage> read(std::string_view kind, std::shared_ptr<const ElementsIndex> index, int64_t place,
                            const StageContext& context) {
  if (context.disk->opened != nullptr) context.disk->opened->add(index->about().nested_files);
  return std::make_unique<SavedElementsStage>(kind, std::move(index), place, context.disk->storage, context);
}

// That in which the input runs, in whatever epoch its elements are asked for.
StageContext first_epoch(PersistedFolder& folder, const StageContext& context) {
  StageContext of_input = context;
  of_input.iteration.epoch = 0;
  of_input.disk = folder.disk_of_input(*context.disk);
  return of_input;
}

/// An epoch from its first element on, of a folder that was not whole: looks first, on the output executor, whether it
/// is by now. Then the elements are read, else calculated, and written where that may be.
class LookStage final : public Stage {
 public:
  LookStage(std::string_view kind, OpenStage input, std::shared_ptr<PersistedFolder> folder,
            const StageContext& context)
      : kind_(kind), input_(std::move(input)), folder_(std::move(folder)), context_(context) {
    context.disk->output.submit(
        [folder = folder_, storage = context.storage, to_write = context.disk->ordered, look = look_] {
          try {
            look->permit = folder->look(*storage, to_write);
          } catch (const ErrorException& exception) {
            look->error = std::make_shared<const Error>(exception.error());
          } catch (...) {  // no memory to look with: this epoch is calculated
          }
          look->is_over.store(true);
          look->wake.call();
        });
  }
  ~LookStage() override { look_->wake.close(); }

  Poll next(Block& out) override {
    if (!look_->is_over.load()) return Poll::kPending;
    if (look_->error != nullptr) throw ErrorException(*look_->error);
    if (stage_ == nullptr) stage_ = begin();
    return stage_->next(out);
  }

 private:
  // Shared with the function that looks, which may outlive the stage.
  struct Look {
    explicit Look(Waker& waker) : wake([&waker] { waker.wake(); }) {}
    std::atomic<bool> is_over{false};
    PersistedFolder::Permit permit;
    std::shared_ptr<const Error> error;
    ClosableCallback wake;
  };

  std::unique_ptr<Stage> begin() {
    PersistedFolder::Permit permit = std::move(look_->permit);
    if (auto index = folder_->find(context_.iteration.path)) return read(kind_, std::move(index), 0, context_);
    std::unique_ptr<Stage> calculated = input_(first_epoch(*folder_, context_));
    std::shared_ptr<ElementsOutput> output;
    if (permit.folder != nullptr) {
      output = PersistedFolder::begin_writing(folder_, std::move(permit), context_);
    } else if (!context_.disk->ordered) {
      folder_->set_unkept("its elements come in another order each time (ordered = false)");
    }
    return std::make_unique<KeepStage>(kind_, std::move(calculated), folder_, std::move(output), 0, context_);
  }

  const std::string_view kind_;
  const OpenStage input_;
  const std::shared_ptr<PersistedFolder> folder_;
  const StageContext context_;
  const std::shared_ptr<Look> look_ = std::make_shared<Look>(context_.waker);
  std::unique_ptr<Stage> stage_;
};

}  // namespace

PersistedElementsOperator::PersistedElementsOperator(SchemaPtr schema, std::string_view name, std::string directory,
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
                                     "after it",
                                     name, directory_));
  }
}

size_t PersistedElementsOperator::num_lanes() const { return SavedElementsStage::kNumLanes; }

std::shared_ptr<SharedByRuns> PersistedElementsOperator::share() const {
  return std::make_shared<PersistedFolder>(name(), schema(), identity_.cardinality);
}

int64_t PersistedElementsOperator::prepare(SharedByRuns* shared, const Preparation& with) const {
  auto& folder = dynamic_cast<PersistedFolder&>(*shared);
  const uint64_t digest = identity_.digest(with.storage, with.wait);
  folder.set(one_for_each_digest_ ? path_in(directory_, fmt::format("{:016x}", digest)) : directory_, digest,
             with.storage, with.wait);
  return folder.memory_bytes();
}

std::unique_ptr<Stage> PersistedElementsOperator::open(std::vector<OpenStage> inputs,
                                                       const StageContext& context) const {
  auto folder = std::dynamic_pointer_cast<PersistedFolder>(context.shared);
  if (folder == nullptr || !folder->is_set()) {
    throw ErrorException(ErrorCode::kInvalidArgument,
                         fmt::format("{} with a directory cannot be in a dataset that a function makes: all of them "
                                     "would write to one folder",
                                     name()));
  }
  const int64_t place = context.state == nullptr ? 0 : numbers_of(*context.state, name(), 1)[0];
  if (auto index = folder->find(context.iteration.path)) return read(name(), std::move(index), place, context);
  if (context.state == nullptr) {
    return std::make_unique<LookStage>(name(), std::move(inputs[0]), std::move(folder), context);
  }
  const StageContext of_input = first_epoch(*folder, context);
  // Without a state of the input the folder was whole when this one was made.
  std::unique_ptr<Stage> input = context.state->inputs.empty() ? open_at(inputs[0], of_input, Cursor{nullptr, place})
                                                               : open_input(inputs[0], of_input);
  folder->set_unkept("the run went on from a state, and writes what it reads from the beginning");
  return std::make_unique<KeepStage>(name(), std::move(input), std::move(folder), nullptr, place, context);
}

}  // namespace millrace
