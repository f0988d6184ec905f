#include "millrace/pipeline/pipeline_state.h"

#include <algorithm>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <google/protobuf/io/coded_stream.h>
#include <xxhash.h>

#include "millrace/formats/error.h"
#include "millrace/ops/place_checks.h"
#include "millrace/pipeline/plan/plan_digest.h"
#include "millrace/pipeline/watch/shard_digest_reader.h"
#include "pipeline/pipeline_state.pb.h"

namespace millrace {
namespace {

constexpr uint32_t kVersion = 2;
// Deeper than any plan; what is deeper is no state, and would end the stack.
constexpr int kMostDepth = 1000;

[[noreturn]] void refuse(std::string message) { throw ErrorException(ErrorCode::kState, std::move(message)); }

void write(const Cursor& cursor, state::Cursor& out) {
  out.set_skip(cursor.skip);
  if (cursor.state == nullptr) return;
  state::Stage& stage = *out.mutable_state();
  stage.set_kind(cursor.state->kind);
  stage.mutable_numbers()->Add(cursor.state->numbers.begin(), cursor.state->numbers.end());
  for (const Cursor& input : cursor.state->inputs) write(input, *stage.add_inputs());
  if (!cursor.state->bytes.empty()) stage.set_data(cursor.state->bytes);
}

// Adds what a place takes to its stage's part, and the inputs' to theirs.
void add_parts(const state::Cursor& place, const std::string& path, std::vector<PipelineState::Part>& parts) {
  const std::string name = path.empty() ? place.state().kind() : path + "/" + place.state().kind();
  auto part = std::find_if(parts.begin(), parts.end(), [&](const auto& other) { return other.name == name; });
  if (part == parts.end()) part = parts.insert(part, {.name = name});
  ++part->stages;
  part->bytes += static_cast<int64_t>(place.ByteSizeLong());
  const auto index = part - parts.begin();
  for (const state::Cursor& input : place.state().inputs()) {
    if (!input.has_state()) continue;
    parts[static_cast<size_t>(index)].bytes -= static_cast<int64_t>(input.ByteSizeLong());
    add_parts(input, name, parts);
  }
}

void write(const SkipCounts& skipped, state::Skipped& out) {
  out.set_regions(skipped.regions);
  out.set_records(skipped.records);
  out.set_regions_of_unknown_records(skipped.regions_of_unknown_records);
  out.set_bytes(skipped.bytes);
  out.set_digest(skipped.digest);
}

// Nothing counts so far; what is counted on from there stays a number.
constexpr int64_t kMostCounted = int64_t{1} << 61;

int64_t counted(int64_t number) {
  if (number < 0 || number > kMostCounted) refuse(fmt::format("the state has a count that cannot be: {}", number));
  return number;
}

SkipCounts read(const state::Skipped& skipped) {
  return {.regions = counted(skipped.regions()),
          .records = counted(skipped.records()),
          .regions_of_unknown_records = counted(skipped.regions_of_unknown_records()),
          .bytes = counted(skipped.bytes()),
          .digest = skipped.digest()};
}

Cursor read(const state::Cursor& cursor, int depth) {
  if (depth > kMostDepth || cursor.skip() < 0 || cursor.skip() > kMostReadAgain) {
    refuse("the state has a place that cannot be");
  }
  if (!cursor.has_state()) return {nullptr, cursor.skip()};
  const state::Stage& stage = cursor.state();
  std::vector<Cursor> inputs;
  inputs.reserve(static_cast<size_t>(stage.inputs_size()));
  for (const state::Cursor& input : stage.inputs()) inputs.push_back(read(input, depth + 1));
  return make_cursor(stage.kind(), {stage.numbers().begin(), stage.numbers().end()}, std::move(inputs), stage.data())
      .advanced_by(cursor.skip());
}

}  // namespace

PipelineState::PipelineState(Cursor place, int64_t num_delivered, const SkipCounts& skipped,
                             std::shared_ptr<const PlanDigest> plan, std::shared_ptr<ShardDigestReader> shards)
    : place_(std::move(place)),
      num_delivered_(num_delivered),
      skipped_(skipped),
      plan_(std::move(plan)),
      shards_(std::move(shards)) {}

std::string PipelineState::serialize() const {
  state::State content;
  write(place_, *content.mutable_place());
  content.set_num_delivered(num_delivered_);
  if (skipped_.regions > 0) write(skipped_, *content.mutable_skipped());
  for (const PlanDigest::Operator& op : plan_->operators) {
    state::Operator& out = *content.add_operators();
    out.set_name(op.name);
    out.set_arguments(op.arguments);
    out.set_digest(op.digest);
  }
  const ShardDigest& digest = shards_->digest("PipelineState::serialize()");
  state::Shards& shards = *content.mutable_shards();
  shards.set_num_shards(digest.num_shards);
  shards.mutable_names()->Add(digest.names.begin(), digest.names.end());
  shards.mutable_sizes()->Add(digest.sizes.begin(), digest.sizes.end());
  shards.mutable_contents()->Add(digest.contents.begin(), digest.contents.end());

  state::Envelope envelope;
  envelope.set_version(kVersion);
  envelope.set_content(content.SerializeAsString());
  envelope.set_digest(XXH3_64bits(envelope.content().data(), envelope.content().size()));
  return envelope.SerializeAsString();
}

std::vector<PipelineState::Part> PipelineState::parts() const {
  std::vector<Part> parts;
  state::Cursor place;
  write(place_, place);
  if (place_.state != nullptr) add_parts(place, "", parts);
  auto rest = static_cast<int64_t>(serialize().size());
  for (const Part& part : parts) rest -= part.bytes;
  parts.push_back({.name = "(dataset and shards)", .stages = 0, .bytes = rest});
  return parts;
}

PipelineState PipelineState::parse(std::string_view bytes) {
  state::Envelope envelope;
  if (bytes.size() > INT32_MAX || !envelope.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      envelope.version() == 0) {
    refuse(fmt::format("{} bytes that are no state of a pipeline", bytes.size()));
  }
  if (envelope.version() != kVersion) {
    refuse(fmt::format("the state has version {}, this Millrace reads version {}", envelope.version(), kVersion));
  }
  if (XXH3_64bits(envelope.content().data(), envelope.content().size()) != envelope.digest()) {
    refuse("the state is damaged: its digest does not match");
  }
  state::State content;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(envelope.content().data()),
                                                static_cast<int>(envelope.content().size()));
  stream.SetRecursionLimit(2 * kMostDepth + 10);
  if (!content.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) refuse("the state is damaged");
  auto plan = std::make_shared<PlanDigest>();
  for (const state::Operator& op : content.operators()) {
    plan->operators.push_back({.name = op.name(), .arguments = op.arguments(), .digest = op.digest()});
  }
  const state::Shards& shards = content.shards();
  ShardDigest digest{.num_shards = shards.num_shards(),
                     .names = {shards.names().begin(), shards.names().end()},
                     .sizes = {shards.sizes().begin(), shards.sizes().end()},
                     .contents = {shards.contents().begin(), shards.contents().end()}};
  return {read(content.place(), 0), counted(content.num_delivered()), read(content.skipped()), std::move(plan),
          std::make_shared<ShardDigestReader>(std::move(digest))};
}

void PipelineState::check(const PlanDigest& plan, ShardDigestReader& shards) const {
  if (const std::string text = plan.difference(*plan_); !text.empty()) {
    refuse("the state is of another dataset: " + text);
  }
  if (const std::string text = shards.digest("start()").difference(shards_->digest("start()"), shards.paths());
      !text.empty()) {
    refuse("the state is of other shards: " + text);
  }
}

}  // namespace millrace
