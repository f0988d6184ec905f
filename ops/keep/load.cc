#include "millrace/ops/keep/load.h"

#include <utility>

#include <fmt/format.h>

#include "millrace/formats/storage/local_disk.h"
#include "millrace/ops/keep/saved_elements.h"

namespace millrace {
namespace {

constexpr std::string_view kKind = "load";

}  // namespace

LoadOperator::LoadOperator(std::shared_ptr<const ElementsIndex> index, bool local)
    : StageOperator(index->schema()), index_(std::move(index)), local_(local), digest_(index_->content_digest()) {}

Cardinality LoadOperator::cardinality(std::span<const Cardinality>) const {
  return Cardinality::known(index_->num_elements());
}

size_t LoadOperator::num_lanes() const { return SavedElementsStage::kNumLanes; }

std::unique_ptr<Stage> LoadOperator::open(std::vector<OpenStage>, const StageContext& context) const {
  const int64_t first = context.state == nullptr ? 0 : numbers_of(*context.state, kKind, 1)[0];
  if (local_ && context.disk->opened != nullptr) {
    // It ends with a checksum over what all of the files hold.
    const std::string description = fmt::format("{}/{}", index_->directory(), ElementsIndex::kFileName);
    context.disk->opened->add({&description, 1});
  }
  Storage& storage = local_ ? context.disk->storage : *context.storage;
  return std::make_unique<SavedElementsStage>(kKind, index_, first, storage, context);
}

}  // namespace millrace
