#include "millrace/ops/keep/save.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/formats/elements/elements_folder.h"
#include "millrace/ops/keep/elements_output.h"

namespace millrace {
namespace {

struct SaveFolder final : SharedByRuns {
  std::shared_ptr<ElementsFolder> folder;
  uint64_t generation = 0;
};

class SaveStage final : public Stage {
 public:
  SaveStage(SchemaPtr schema, std::unique_ptr<Stage> input, std::shared_ptr<ElementsOutput> output, BufferPool& pool)
      : schema_(std::move(schema)), input_(std::move(input)), output_(std::move(output)), pool_(pool) {}
  ~SaveStage() override { output_->close(); }

  Poll next(Block& out) override {
    if (failed_) return Poll::kEnd;
    if (ended_) return output_->finished() ? Poll::kEnd : Poll::kPending;
    if (!output_->has_room()) return Poll::kPending;
    Block block;
    const Poll poll = input_->next(block);
    if (poll == Poll::kEnd) {
      ended_ = true;
      output_->finish();
      return output_->finished() ? Poll::kEnd : Poll::kPending;
    }
    if (poll != Poll::kBlock) return poll;
    const auto is_error = [](const ElementError& entry) { return !entry.is_note(); };
    const auto error = std::find_if(block.errors().begin(), block.errors().end(), is_error);
    if (error != block.errors().end()) {
      failed_ = true;
      out = error_block(schema_, pool_, error->error);
      return poll;
    }
    elements_ += static_cast<int64_t>(block.num_elements() - block.errors().size());
    // What was left out passes on, and is counted by the pipeline.
    const size_t num_notes = block.errors().size();
    Column column = Column::fixed(pool_, DType::kInt64, {}, num_notes + 1);
    std::ranges::fill(column.mutable_values<int64_t>(), elements_);
    out = Block(schema_, {std::move(column)}, num_notes + 1);
    for (size_t i = 0; i < num_notes; ++i) out.add_error(i, block.errors()[i].error);
    output_->append(std::move(block));
    return poll;
  }

 private:
  const SchemaPtr schema_;
  const std::unique_ptr<Stage> input_;
  const std::shared_ptr<ElementsOutput> output_;
  BufferPool& pool_;
  int64_t elements_ = 0;
  bool ended_ = false;
  bool failed_ = false;
};

}  // namespace

SaveOperator::SaveOperator(const SchemaPtr& input, std::string directory, bool overwrite)
    : StageOperator(std::make_shared<const Schema>(
          std::vector<FeatureSpec>{{.name = "elements", .dtype = DType::kInt64, .shape = {}}})),
      input_(input),
      directory_(std::move(directory)),
      overwrite_(overwrite) {
  if (directory_.empty()) throw ErrorException(ErrorCode::kInvalidArgument, "save: directory is empty");
}

std::shared_ptr<SharedByRuns> SaveOperator::share() const { return std::make_shared<SaveFolder>(); }

int64_t SaveOperator::prepare(SharedByRuns* shared, const Preparation&) const {
  auto& save = dynamic_cast<SaveFolder&>(*shared);
  save.folder = ElementsFolder::lock(directory_);
  try {
    const std::shared_ptr<const ElementsIndex> index = find_elements(directory_);
    if (index != nullptr && !overwrite_) {
      throw ErrorException(ErrorCode::kInvalidArgument,
                           fmt::format("'{}' holds {} elements already, which {} wrote; overwriting them puts others "
                                       "in their place",
                                       directory_, index->num_elements(), index->about().written_by));
    }
    save.folder->remove_others(index.get());
  } catch (const ErrorException& exception) {
    Error error = exception.error();
    if (error.code != ErrorCode::kParse) throw;
    // Nobody knows what it holds; until others are in their place, its files stay.
    if (!overwrite_) {
      error.message += "; overwriting the elements of the folder puts others in their place";
      throw ErrorException(std::move(error));
    }
  }
  save.generation = save.folder->next_generation();
  return 0;
}

std::unique_ptr<Stage> SaveOperator::open(std::vector<OpenStage> inputs, const StageContext& context) const {
  const auto& save = dynamic_cast<SaveFolder&>(*context.shared);
  auto writer = std::make_unique<ElementsWriter>(
      save.folder, input_, ElementsIndex::About{.written_by = "save", .generation = save.generation});
  auto output =
      std::make_shared<ElementsOutput>(context, std::move(writer), [](ElementsWriter& written) { written.commit(); });
  return std::make_unique<SaveStage>(schema(), inputs[0](context), std::move(output), context.pool);
}

}  // namespace millrace
