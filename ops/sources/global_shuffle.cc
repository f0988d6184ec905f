#include "millrace/ops/sources/global_shuffle.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "millrace/formats/random/keyed_permutation.h"
#include "millrace/formats/records/skipped_region.h"
#include "millrace/formats/tfrecord/frame.h"
#include "millrace/formats/tfrecord/index/record_fetcher.h"
#include "millrace/formats/tfrecord/index/shard_indexes.h"
#include "millrace/ops/flow/damage_budget.h"
#include "millrace/ops/sources/shard_order.h"

namespace millrace {
namespace {

constexpr std::string_view kKind = "global_shuffle";
constexpr size_t kNumLanes = GlobalShuffleOperator::kNumLanes;
// Of a data set of few records every lane gets some.
constexpr uint64_t kLeastWindow = 256;
constexpr uint64_t kFirstWindow = 64;
// What a window takes for a record beside its bytes: its number, where it is and where it goes. Not in buffers.
constexpr uint64_t kBytesOfPlace = 2 * sizeof(uint64_t) + RecordFetcher::kBytesOfPlace;

// A frame with more than one record is unpacked for each of them.
constexpr uint64_t kMostFrameBytes = 8 << 20;

[[noreturn]] void refuse_compressed(const std::string& path, const std::string& what) {
  throw ErrorException(
      {.code = ErrorCode::kInvalidArgument,
       .message = fmt::format("{} for each record; write the shards without compression or as ZSTD with a seek table "
                              "(RecordWriter), or read them with tfrecord(…, {{.shuffle_shards = true}}) and "
                              "shuffle(buffer_size)",
                              what),
       .shard = path});
}

// Bytes of the frames of a zstd shard, the largest ones.
struct FrameBytes {
  uint64_t packed = 0;
  uint64_t unpacked = 0;  // of those with several records
};

FrameBytes largest_frames(const ShardIndex& index) {
  FrameBytes most;
  for (size_t i = 0; i < index.num_frames(); ++i) {
    const ShardIndex::Frame frame = index.frame(i);
    const uint64_t bytes = frame.end_offset - frame.offset;
    most.packed = std::max(most.packed, frame.end - frame.begin);
    if (bytes <= most.unpacked) continue;
    const uint64_t next = index.first_from(frame.offset + 1).offset;
    if (next < frame.end_offset) most.unpacked = bytes;
  }
  return most;
}

// What a lane needs to read one frame and to unpack it. Throws where a shard cannot be read by frames.
uint64_t checked_frame_bytes(const ShardIndexes& indexes) {
  uint64_t most = 0;
  for (size_t i = 0; i < indexes.num_shards(); ++i) {
    const ShardIndex& index = indexes.index(i);
    if (index.num_records() == 0 || index.compression() == Compression::kNone) continue;
    if (index.compression() != Compression::kZstd) {
      refuse_compressed(indexes.path(i), fmt::format("a {} shard would have to be unpacked, up to 1 MiB of it,",
                                                     to_string(index.compression())));
    }
    if (!index.has_frames()) {
      refuse_compressed(indexes.path(i),
                        "a ZSTD shard without a seek table would have to be unpacked from its beginning");
    }
    const FrameBytes frames = largest_frames(index);
    if (frames.unpacked > kMostFrameBytes) {
      refuse_compressed(indexes.path(i),
                        fmt::format("frames of up to {} bytes would have to be unpacked", frames.unpacked));
    }
    most = std::max(most, frames.packed + frames.unpacked);
  }
  return most;
}

/// Indexes of shards that can be read record by record.
struct CheckedIndexes {
  /// `most_bytes`: half of the memory budget.
  CheckedIndexes(std::shared_ptr<const ShardIndexes> of, int64_t most_bytes)
      : all(std::move(of)), frame_bytes(checked_frame_bytes(*all)) {
    if (frame_bytes <= static_cast<uint64_t>(most_bytes) / 2) return;
    throw ErrorException(ErrorCode::kMemoryBudget,
                         fmt::format("to read and unpack a frame of the shards takes {} bytes, more than a quarter of "
                                     "the memory budget, which is {}",
                                     frame_bytes, most_bytes / 2));
  }

  const std::shared_ptr<const ShardIndexes> all;
  const uint64_t frame_bytes;  // see checked_frame_bytes
};

/// What all epochs share.
class SharedFiles final : public SharedByRuns {
 public:
  SharedFiles(size_t num_shards, size_t most_files) : files(std::make_shared<FilePool>(num_shards, most_files)) {}

  const std::shared_ptr<FilePool> files;

  // Null until they are read.
  std::shared_ptr<const CheckedIndexes> indexes() {
    const std::lock_guard lock(mutex_);
    return indexes_;
  }
  void set_indexes(std::shared_ptr<const CheckedIndexes> indexes) {
    const std::lock_guard lock(mutex_);
    indexes_ = std::move(indexes);
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<const CheckedIndexes> indexes_;
};

/// What the lanes of one run work by.
struct Work {
  std::shared_ptr<SharedFiles> shared;
  std::shared_ptr<const ShardIndexes> indexes;
  KeyedPermutation order;
  uint64_t begin;   // position of the first window
  uint64_t window;  // records of each, but of the first ones
  RecordFetcherOptions fetcher;
  bool limited_by_memory;  // the length of records
  bool skips;

  // Where window `index` begins: the lanes double theirs from window to window, so that the first records come soon.
  uint64_t begin_of(uint64_t index) const {
    uint64_t at = begin;
    uint64_t records = std::min(kFirstWindow, window);
    for (; index >= kNumLanes && records < window; index -= kNumLanes) {
      at += kNumLanes * records;
      records = std::min(2 * records, window);
    }
    return at + index * records;  // below 2^63: there are not so many records, and windows are short
  }
};

/// Every eighth window, one after the other.
class WindowsStage final : public Stage {
 public:
  WindowsStage(std::shared_ptr<const Work> work, size_t lane, const StageContext& context)
      : work_(std::move(work)),
        pool_(context.pool),
        names_(context.shard_names),
        memory_(context.memory),
        epoch_(context.iteration.epoch),
        window_(lane),
        fetcher_(*context.storage, pool_, work_->indexes, work_->shared->files, options_in(context),
                 [&waker = context.waker] { waker.wake(); }) {
    if (names_ == nullptr) return;
    for (size_t i = 0; i < work_->indexes->num_shards(); ++i) names_of_.push_back(names_->add(work_->indexes->path(i)));
  }

  Poll next(Block& out) override {
    while (true) {
      switch (fetcher_.next(records_)) {
        case RecordFetcher::Step::kPending: return Poll::kPending;
        case RecordFetcher::Step::kRecords: out = block(); return Poll::kBlock;
        case RecordFetcher::Step::kEnd: break;
      }
      const uint64_t size = work_->order.size();
      const uint64_t begin = work_->begin_of(window_);
      if (begin >= size) return Poll::kEnd;
      const uint64_t count = std::min(work_->begin_of(window_ + 1), size) - begin;
      numbers_.resize(count);
      for (uint64_t i = 0; i < count; ++i) numbers_[i] = work_->order(begin + i);
      fetcher_.start(numbers_);
      window_ += kNumLanes;
    }
  }

 private:
  RecordFetcherOptions options_in(const StageContext& context) const {
    RecordFetcherOptions options = work_->fetcher;
    options.memory = context.memory;
    return options;
  }

  Block block() {
    const size_t count = records_.places.size();
    Column column = Column::fixed(pool_, DType::kBytes, {}, count);
    std::copy(records_.payloads.begin(), records_.payloads.end(), column.mutable_values<std::string_view>().begin());
    if (records_.buffer) column.hold(records_.buffer);
    Block block(record_schema(), {std::move(column)}, count);
    if (names_ != nullptr) {
      Origins origins(pool_, names_, count);
      for (size_t i = 0; i < count; ++i) {
        const FetchedRecords::Place& place = records_.places[i];
        origins.mutable_data()[i] = Origin(names_of_[place.shard], place.offset, place.record);
      }
      block.set_origins(std::move(origins));
    }
    for (FetchedRecords::Fault& fault : records_.faults) {
      block.add_error(fault.index, error(std::move(fault.error), records_.places[fault.index]));
    }
    records_.buffer = {};
    return block;
  }

  std::shared_ptr<const Error> error(Error error, const FetchedRecords::Place& place) const {
    if (error.code == ErrorCode::kRecordTooLarge && work_->limited_by_memory) {
      error.code = ErrorCode::kMemoryBudget;
      error.message += fmt::format(", a quarter of the memory budget of {} bytes", memory_->budget());
    }
    if (!is_damage(error.code)) return std::make_shared<const Error>(std::move(error));
    if (!work_->skips) {
      error.lost_bytes = static_cast<int64_t>(place.bytes);
      return std::make_shared<const Error>(std::move(error));
    }
    error.skipped = std::make_shared<const SkippedRegion>(SkippedRegion{.shard = error.shard,
                                                                        .begin = place.offset,
                                                                        .end = place.offset + place.bytes,
                                                                        .first_record = place.record,
                                                                        .records = 1,
                                                                        .epoch = epoch_,
                                                                        .code = error.code,
                                                                        .reason = error.message});
    return std::make_shared<const Error>(std::move(error));
  }

  const std::shared_ptr<const Work> work_;
  BufferPool& pool_;
  const std::shared_ptr<ShardNames> names_;
  std::vector<uint32_t> names_of_;  // by shard
  const MemoryGate* const memory_;
  const int64_t epoch_;
  uint64_t window_;  // that comes next
  std::vector<uint64_t> numbers_;
  RecordFetcher fetcher_;
  FetchedRecords records_;
};

/// Takes the windows of the lanes in turn.
class GlobalShuffleStage final : public Stage {
 public:
  GlobalShuffleStage(const Shards& shards, const GlobalShuffleOptions& options, std::shared_ptr<SharedFiles> shared,
                     const StageContext& context)
      : shards_(shards), options_(options), shared_(std::move(shared)), context_(context) {
    if (context.state != nullptr) {
      // The digest may be any number; how far the position may be is seen when the indexes are there.
      const std::vector<int64_t>& numbers = any_numbers_of(*context.state, kKind, 2);
      position_ = static_cast<uint64_t>(numbers[0]);
      digest_ = numbers[1];
    }
  }

  ~GlobalShuffleStage() override {
    lanes_ = {};
    if (reserved_ > 0) context_.memory->taken(reserved_);
  }

  Poll next(Block& out) override {
    if (work_ == nullptr && !begin()) return Poll::kPending;
    if (position_ == work_->order.size()) return Poll::kEnd;
    if (position_ == work_->begin_of(window_ + 1)) ++window_;
    const Poll poll = lanes_[window_ % kNumLanes]->next(out);
    if (poll != Poll::kBlock) return poll;  // a lane that has failed gave its error before it ended
    out.epoch = context_.iteration.epoch;
    out.cursor = make_cursor(kKind, {static_cast<int64_t>(position_), digest_});
    position_ += out.num_elements();
    return Poll::kBlock;
  }

 private:
  // False while the indexes are not there yet.
  bool begin() {
    if (indexes_ == nullptr) indexes_ = shared_->indexes();
    if (indexes_ == nullptr) {
      // Nobody has prepared this run: it is nested in another one's function.
      const int64_t most_bytes = context_.memory_budget() / 2;
      if (!loader_) {
        loader_.emplace(*context_.storage, shards_, most_bytes, [&waker = context_.waker] { waker.wake(); });
      }
      if (!loader_->done()) return false;
      indexes_ = std::make_shared<const CheckedIndexes>(loader_->take(), most_bytes);
      loader_.reset();
      is_unreserved_ = context_.memory != nullptr;
    }
    if (is_unreserved_) {
      if (!context_.memory->admit(indexes_->all->memory_bytes())) return false;
      reserved_ = indexes_->all->memory_bytes();
      is_unreserved_ = false;
    }
    const auto digest = static_cast<int64_t>(indexes_->all->digest());
    if (context_.state != nullptr && (digest_ != digest || position_ > indexes_->all->num_records())) {
      throw ErrorException(ErrorCode::kState,
                           fmt::format("the indexes of the shards are others than when the state was made (digest "
                                       "{:016x}, {:016x} in the state)",
                                       digest, digest_));
    }
    digest_ = digest;
    start();
    return true;
  }

  void start() {
    const uint64_t records = indexes_->all->num_records();
    RecordFetcherOptions fetcher{
        .merge_gap = static_cast<uint64_t>(options_.merge_gap),
        .reads_in_flight = std::max<size_t>(static_cast<size_t>(options_.reads_in_flight) / kNumLanes, 1),
        .frame_bytes = indexes_->frame_bytes,
        .max_record_bytes = options_.max_record_bytes,
        .batch_records = kBlockElements,
        .batch_bytes = kBlockBytes};
    bool limited_by_memory = false;
    if (context_.memory != nullptr) {
      // Windows and the pieces that are read for them take a quarter of the budget, all lanes together.
      const auto budget = static_cast<uint64_t>(context_.memory->budget());
      fetcher.most_bytes_held = std::min(fetcher.most_bytes_held, budget / (4 * 2 * kNumLanes));
      limited_by_memory = largest_record(*context_.memory) < fetcher.max_record_bytes;
      fetcher.max_record_bytes = std::min(fetcher.max_record_bytes, largest_record(*context_.memory));
    }
    uint64_t window = static_cast<uint64_t>(options_.window);
    window = std::min(window, std::max(records / kNumLanes, kLeastWindow));
    if (records > 0) {
      // A window is held at once where records are of about one size: one in parts would wait for each.
      const uint64_t bytes_a_record = std::max(indexes_->all->num_bytes() / records, kFrameBytes) + kBytesOfPlace;
      window = std::clamp<uint64_t>(fetcher.most_bytes_held / 4 * 3 / bytes_a_record, 1, window);
    }
    const Iteration iteration{options_.reshuffle_each_iteration ? context_.iteration.epoch : 0,
                              context_.iteration.path};
    work_ = std::make_shared<const Work>(Work{.shared = shared_,
                                              .indexes = indexes_->all,
                                              .order = KeyedPermutation(records, options_.seed, iteration),
                                              .begin = position_,
                                              .window = window,
                                              .fetcher = fetcher,
                                              .limited_by_memory = limited_by_memory,
                                              .skips = options_.damage.action == DamagePolicy::kSkip});
    for (size_t lane = 0; lane < kNumLanes && work_->begin_of(lane) < records; ++lane) {
      const OpenStage open = [work = work_, lane](const StageContext& context) {
        return std::make_unique<WindowsStage>(work, lane, context);
      };
      StageContext context = context_;
      context.state = nullptr;
      lanes_[lane] = context_.lanes.open(lane, open, context, {});
    }
  }

  const Shards shards_;
  const GlobalShuffleOptions options_;
  const std::shared_ptr<SharedFiles> shared_;
  const StageContext context_;
  std::optional<ShardIndexesLoader> loader_;
  std::shared_ptr<const CheckedIndexes> indexes_;
  bool is_unreserved_ = false;  // the memory of `indexes_`
  int64_t reserved_ = 0;
  uint64_t position_ = 0;  // of the next record
  uint64_t window_ = 0;    // that has it
  int64_t digest_ = 0;     // of the indexes
  std::shared_ptr<const Work> work_;
  std::array<std::unique_ptr<Stage>, kNumLanes> lanes_;
};

void check_option(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return;
  throw ErrorException(ErrorCode::kInvalidArgument,
                       fmt::format("global_shuffle: {} must be {} to {}, not {}", name, least, most, value));
}

}  // namespace

GlobalShuffleOperator::GlobalShuffleOperator(Shards shards, const GlobalShuffleOptions& options)
    : StageOperator(record_schema()), shards_(std::move(shards)), options_(options) {
  check_option("window", options.window, 1, int64_t{1} << 24);
  check_option("merge_gap", options.merge_gap, 0, int64_t{1} << 40);
  check_option("reads_in_flight", options.reads_in_flight, 8, int64_t{1} << 20);
  options_.damage.check();
}

Cardinality GlobalShuffleOperator::cardinality(std::span<const Cardinality>) const {
  // Damage can make it any smaller number.
  if (options_.damage.action == DamagePolicy::kSkip) return Cardinality::unknown();
  const std::optional<uint64_t> total = shards_.num_records();
  return total ? Cardinality::known(static_cast<int64_t>(*total)) : Cardinality::unknown();
}

int64_t GlobalShuffleOperator::memory_needed(std::span<const Cardinality>) const {
  const std::optional<uint64_t> total = shards_.num_records();
  if (!total || *total > uint64_t{1} << 60) return total ? INT64_MAX : 0;
  return static_cast<int64_t>(*total * sizeof(uint64_t));
}

std::shared_ptr<SharedByRuns> GlobalShuffleOperator::share() const {
  return std::make_shared<SharedFiles>(shards_.size(), static_cast<size_t>(options_.reads_in_flight));
}

int64_t GlobalShuffleOperator::prepare(SharedByRuns* shared, const Preparation& with) const {
  auto indexes = std::make_shared<const CheckedIndexes>(
      load_shard_indexes(with.storage, shards_, with.most_bytes, with.wait), with.most_bytes);
  const int64_t bytes = indexes->all->memory_bytes();
  dynamic_cast<SharedFiles&>(*shared).set_indexes(std::move(indexes));
  return bytes;
}

std::unique_ptr<Stage> GlobalShuffleOperator::open(std::vector<OpenStage>, const StageContext& context) const {
  const OpenStage open_records = [this](const StageContext& inner) {
    const std::shared_ptr<SharedByRuns> shared = inner.shared != nullptr ? inner.shared : share();
    return std::make_unique<GlobalShuffleStage>(shards_, options_, std::dynamic_pointer_cast<SharedFiles>(shared),
                                                inner);
  };
  if (options_.damage.action == DamagePolicy::kFail) return open_below_damage_budget(open_records, context);
  return std::make_unique<DamageBudgetStage>(open_below_damage_budget(open_records, context), options_.damage, context);
}

}  // namespace millrace
