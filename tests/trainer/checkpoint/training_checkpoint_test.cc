#include "millrace/trainer/checkpoint/training_checkpoint.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/safetensors/reader.h"
#include "millrace/trainer/optimizers/sgd.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/toy_training.h"

namespace millrace::training_checkpoint_test {
namespace {

namespace fs = std::filesystem;
using test::read_file;
using test::TemporaryFolder;
using test::write_file;
using testing::ElementsAre;
using testing::UnorderedElementsAre;
using testing_models::Regression;
using testing_models::thrown_by;

const TrainingProgress kProgress = {
    .step = 120,
    .micro_batches = 359,
    .updates = 117,
    .skipped_in_a_row = 2,
    .seed = std::numeric_limits<uint64_t>::max() - 7,
    .accumulate = 3,
    .epoch = 3,
    .in_epoch = true,
    .evaluation_due = true,
    .unreported = {.sum_loss = 0.1 + 0.2,
                   .weight = 1.0 / 3,
                   .more_losses = {{.sum = 0.7, .weight = 3}},
                   .metrics = {{"accuracy", 0.1 + 0.7, 1.0 / 7}}},
    .loss_scale = {.scale = 4096, .good_steps = 17},
    .model = "regression(depth=2)",
    .gradients = "global_mean, without 'a\"b'",
    .callbacks = {{"bytes", std::string("\x00\xff\x80z", 4)}, {"early_stopping", "{\"best\":1}"}}};

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  return names;
}

// A state in which no two floats are alike.
struct Fixture {
  explicit Fixture(float start = 1) : state(model.layout(), optimizer) {
    for (const Parameter& parameter : model.layout().parameters()) {
      for (int64_t i = parameter.offset; i < parameter.offset + parameter.size; ++i) {
        state.weights.data()[i] = start += 0.37F;
        for (FlatBuffer& slot : state.slots) slot.data()[i] = start += 0.37F;
      }
    }
  }

  std::string save(CheckpointFolder& folder, int64_t step = 120) const {
    TrainingProgress progress = kProgress;
    progress.step = step;
    return folder.save(progress, model.layout(), state, optimizer, *schedule);
  }
  TrainingProgress load(const std::string& directory) {
    return load_checkpoint(directory, model.layout(), state, optimizer, *schedule);
  }
  std::vector<float> everything() const {
    std::vector<float> all(state.weights.span().begin(), state.weights.span().end());
    for (const FlatBuffer& slot : state.slots) all.insert(all.end(), slot.span().begin(), slot.span().end());
    return all;
  }

  Regression model;
  Adam optimizer{model.layout(), adamw(0.1)};
  std::unique_ptr<Schedule> schedule = linear_warmup_decay({.warmup_steps = 3, .total_steps = 10});
  TrainedState state;
};

TEST(TrainingCheckpoint, HoldsWeightsSlotsAndCounters) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path("a/b"), {});
  const Fixture saved;
  const std::string path = saved.save(checkpoints);
  EXPECT_EQ(path, folder.path("a/b/checkpoint-00000120"));
  EXPECT_THAT(names_in(path), UnorderedElementsAre("model.safetensors", "optimizer.safetensors", "training.json"));
  EXPECT_THAT(names_in(folder.path("a/b")), ElementsAre("checkpoint-00000120"));

  Fixture loaded(50);
  for (const TrainingProgress& progress : {loaded.load(path), read_progress(path)}) {
    EXPECT_EQ(progress.step, kProgress.step);
    EXPECT_EQ(progress.micro_batches, kProgress.micro_batches);
    EXPECT_EQ(progress.accumulate, kProgress.accumulate);
    EXPECT_EQ(progress.updates, kProgress.updates);
    EXPECT_EQ(progress.skipped_in_a_row, kProgress.skipped_in_a_row);
    EXPECT_EQ(progress.seed, kProgress.seed);
    EXPECT_EQ(progress.epoch, kProgress.epoch);
    EXPECT_EQ(progress.in_epoch, kProgress.in_epoch);
    EXPECT_EQ(progress.evaluation_due, kProgress.evaluation_due);
    EXPECT_EQ(progress.unreported.sum_loss, kProgress.unreported.sum_loss);
    EXPECT_EQ(progress.unreported.weight, kProgress.unreported.weight);
    EXPECT_EQ(progress.unreported.loss(1).sum, kProgress.unreported.loss(1).sum);
    EXPECT_EQ(progress.unreported.loss(1).weight, kProgress.unreported.loss(1).weight);
    ASSERT_EQ(progress.unreported.metrics.size(), 1U);
    EXPECT_EQ(progress.unreported.metrics[0].name, "accuracy");
    EXPECT_EQ(progress.unreported.metrics[0].value(), kProgress.unreported.metrics[0].value());
    EXPECT_EQ(progress.loss_scale.scale, kProgress.loss_scale.scale);
    EXPECT_EQ(progress.loss_scale.good_steps, kProgress.loss_scale.good_steps);
    EXPECT_EQ(progress.model, kProgress.model);
    EXPECT_EQ(progress.gradients, kProgress.gradients);
    EXPECT_EQ(progress.callbacks, kProgress.callbacks);
  }
  EXPECT_EQ(loaded.everything(), saved.everything());
}

TEST(TrainingCheckpoint, NumbersThatAreNotFiniteComeBackAsTheyWere) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {});
  const Fixture fixture;
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double number : {std::nan(""), infinity, -infinity}) {
    TrainingProgress saved = kProgress;
    saved.unreported = {.sum_loss = number,
                        .weight = number,
                        .more_losses = {{.sum = number, .weight = number}, {.sum = 2, .weight = 3}},
                        .metrics = {{"accuracy", number, number}, {"recall", 4, 5}}};
    const std::string path =
        checkpoints.save(saved, fixture.model.layout(), fixture.state, fixture.optimizer, *fixture.schedule);
    const StepResult found = read_progress(path).unreported;
    ASSERT_EQ(found.more_losses.size(), 2U);
    ASSERT_EQ(found.metrics.size(), 2U);
    for (const double back : {found.sum_loss, found.weight, found.more_losses[0].sum, found.more_losses[0].weight,
                              found.metrics[0].sum, found.metrics[0].weight}) {
      EXPECT_EQ(fmt::format("{}", back), fmt::format("{}", number));
    }
    EXPECT_EQ(found.more_losses[1].weight, 3);
    EXPECT_EQ(found.metrics[1].sum, 4);
  }
}

TEST(TrainingCheckpoint, OneOfVersion3HasNullForANumberThatIsNotFinite) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {});
  const std::string path = Fixture().save(checkpoints);
  nlohmann::json json = nlohmann::json::parse(read_file(path + "/training.json"));
  json["version"] = 3;
  json["unreported_metrics"][0][1] = nullptr;
  write_file(path + "/training.json", json.dump());
  const TrainingProgress progress = read_progress(path);
  ASSERT_EQ(progress.unreported.metrics.size(), 1U);
  EXPECT_TRUE(std::isnan(progress.unreported.metrics[0].sum));
  json["unreported_metrics"][0][1] = "many";
  write_file(path + "/training.json", json.dump());
  EXPECT_THAT(thrown_by([&] { read_progress(path); }),
              testing::AllOf(testing::HasSubstr("must be number"), testing::HasSubstr("training.json")));
}

TEST(TrainingCheckpoint, KeepsTheLastOnesOnly) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {.keep_last = 2});
  EXPECT_THAT(checkpoints.paths(), ElementsAre());
  const Fixture fixture;
  write_file(folder.path("notes.txt"), "mine");
  for (const int64_t step : {2, 10, 99999999, 100000000}) fixture.save(checkpoints, step);
  EXPECT_THAT(checkpoints.paths(),
              ElementsAre(folder.path("checkpoint-99999999"), folder.path("checkpoint-100000000")));
  EXPECT_THAT(names_in(folder.path()),
              UnorderedElementsAre("checkpoint-99999999", "checkpoint-100000000", "notes.txt"));
}

TEST(TrainingCheckpoint, ATrainingTakenUpFurtherBackKeepsWhatItSaves) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {.keep_last = 1});
  const Fixture fixture;
  fixture.save(checkpoints, 20);
  fixture.save(checkpoints, 12);
  EXPECT_THAT(checkpoints.paths(), ElementsAre(folder.path("checkpoint-00000012"), folder.path("checkpoint-00000020")));
  fixture.save(checkpoints, 14);
  EXPECT_THAT(checkpoints.paths(), ElementsAre(folder.path("checkpoint-00000014"), folder.path("checkpoint-00000020")));
  fixture.save(checkpoints, 20);
  EXPECT_THAT(checkpoints.paths(), ElementsAre(folder.path("checkpoint-00000020")));
}

TEST(TrainingCheckpoint, ReplacesAnOlderOneOfTheSameStep) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {});
  Fixture(1).save(checkpoints);
  const Fixture newer(2);
  newer.save(checkpoints);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("checkpoint-00000120"));
  Fixture loaded(3);
  loaded.load(folder.path("checkpoint-00000120"));
  EXPECT_EQ(loaded.everything(), newer.everything());
}

TEST(TrainingCheckpoint, WhatAKilledProcessLeftIsRemovedByTheNextSaveAndIsNoCheckpoint) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {});
  const Fixture fixture;
  for (const char* name : {".tmp-checkpoint-00000007", ".removed-checkpoint-00000003", ".tmp-of-somebody-else"}) {
    fs::create_directories(folder.path(name));
    write_file(folder.path(std::string(name) + "/model.safetensors"), "half");
  }
  EXPECT_THAT(checkpoints.paths(), ElementsAre());
  fixture.save(checkpoints, 8);
  EXPECT_THAT(names_in(folder.path()), UnorderedElementsAre("checkpoint-00000008", ".tmp-of-somebody-else"));
}

TEST(TrainingCheckpoint, MoreFilesArePartOfIt) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {.more_files = [](const std::string& directory) {
                                 fs::create_directory(directory + "/tokenizer");
                                 write_file(directory + "/tokenizer/tokenizer.json", "{}");
                               }});
  const Fixture fixture;
  const std::string path = fixture.save(checkpoints);
  EXPECT_EQ(read_file(path + "/tokenizer/tokenizer.json"), "{}");
}

TEST(TrainingCheckpoint, AFailingMoreFilesLeavesTheOldOnesWholeAndNothingNew) {
  const TemporaryFolder folder;
  bool fails = false;
  CheckpointFolder checkpoints(folder.path(), {.keep_last = 1, .more_files = [&](const std::string& directory) {
                                                 write_file(directory + "/config.json", "{}");
                                                 if (fails) throw ErrorException(ErrorCode::kIo, "the disk is full");
                                               }});
  const Fixture older(1);
  const std::string path = older.save(checkpoints, 5);
  fails = true;
  const Fixture newer(2);
  for (const int64_t step : {5, 6}) {
    EXPECT_EQ(thrown_by([&] { newer.save(checkpoints, step); }), "io: the disk is full");
    EXPECT_THAT(names_in(folder.path()), ElementsAre("checkpoint-00000005"));
    Fixture loaded(3);
    loaded.load(path);
    EXPECT_EQ(loaded.everything(), older.everything());
  }
}

TEST(TrainingCheckpoint, AFolderThatCannotBeWrittenIsNamed) {
  const TemporaryFolder folder;
  write_file(folder.path("file"), "");
  CheckpointFolder checkpoints(folder.path("file/checkpoints"), {});
  EXPECT_THAT(thrown_by([&] { Fixture().save(checkpoints); }),
              testing::AllOf(testing::StartsWith("io: cannot make the folder: "),
                             testing::HasSubstr(folder.path("file/checkpoints"))));
}

TEST(TrainingCheckpoint, RefusesAnotherModelWithAListAndChangesNothing) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {});
  const std::string path = Fixture().save(checkpoints);

  class OtherModel final : public Model {
   public:
    OtherModel() {
      layout_.add("first.weight", {5, 7});  // saved as [7, 5]
      layout_.add("first.bias", {7});
      layout_.add("third.weight", {7});
      layout_.finish();
    }
    const ParameterLayout& layout() const override { return layout_; }
    void initialize(std::span<float>, uint64_t) const override {}
    std::unique_ptr<Workspace> make_workspace() const override { return nullptr; }
    StepResult train_step(const BatchView&, const float*, ReplicaContext&) const override { return {}; }
    StepResult evaluate(const BatchView&, const float*, Workspace&) const override { return {}; }

   private:
    ParameterLayout layout_;
  };
  const OtherModel model;
  const Adam optimizer(model.layout(), adamw(0.1));
  TrainedState state(model.layout(), optimizer);
  const auto schedule = linear_warmup_decay({.warmup_steps = 3, .total_steps = 10});
  EXPECT_EQ(thrown_by([&] { load_checkpoint(path, model.layout(), state, optimizer, *schedule); }),
            fmt::format("invalid_argument: the file is of another model; missing: third.weight; of another "
                        "shape: first.weight (F32 [7,5], the model has F32 [5,7]); unexpected: second.weight, "
                        "second.bias (file {}/model.safetensors)",
                        path));
  for (const float weight : state.weights.span()) EXPECT_EQ(weight, 0);
}

TEST(TrainingCheckpoint, RefusesAnotherOptimizerOrScheduleAndShowsBoth) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {});
  const std::string path = Fixture().save(checkpoints);
  Fixture loaded(9);
  const std::vector<float> before = loaded.everything();

  const Adam slower(loaded.model.layout(), adamw(0.2));
  EXPECT_EQ(thrown_by([&] { load_checkpoint(path, loaded.model.layout(), loaded.state, slower, *loaded.schedule); }),
            fmt::format("invalid_argument: the checkpoint {} was made with the optimizer {}, this run has {}", path,
                        loaded.optimizer.describe(), slower.describe()));
  const auto longer = linear_warmup_decay({.warmup_steps = 3, .total_steps = 11});
  EXPECT_EQ(thrown_by([&] { load_checkpoint(path, loaded.model.layout(), loaded.state, loaded.optimizer, *longer); }),
            fmt::format("invalid_argument: the checkpoint {} was made with the schedule {}, this run has {}", path,
                        loaded.schedule->describe(), longer->describe()));
  EXPECT_EQ(loaded.everything(), before);
}

TEST(TrainingCheckpoint, SaysThatTheBatchesAreOthersWhereTheScheduleFollowsFromThem) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {});
  Fixture saved;
  const std::string path = checkpoints.save({.step = 2, .updates = 2}, saved.model.layout(), saved.state,
                                            saved.optimizer, *saved.schedule, "batches of 32");
  const auto half_the_steps = linear_warmup_decay({.warmup_steps = 3, .total_steps = 5});
  EXPECT_EQ(thrown_by([&] {
              load_checkpoint(path, saved.model.layout(), saved.state, saved.optimizer, *half_the_steps,
                              "batches of 64");
            }),
            fmt::format("invalid_argument: the checkpoint {} was made with the batches batches of 32, this run has "
                        "batches of 64",
                        path));
}

TEST(TrainingCheckpoint, RefusesDamagedFilesNamingThem) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {});
  Fixture fixture;
  const std::vector<float> before = fixture.everything();
  const std::string path = fixture.save(checkpoints);
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "training.json"}) {
    const std::string file = path + "/" + name;
    const std::string whole = read_file(file);
    for (const size_t length : {size_t{0}, whole.size() / 2, whole.size() - 3}) {
      write_file(file, whole.substr(0, length));
      EXPECT_THAT(thrown_by([&] { fixture.load(path); }), testing::HasSubstr(name)) << length << " bytes left";
    }
    fs::remove(file);
    EXPECT_THAT(thrown_by([&] { fixture.load(path); }),
                testing::AllOf(testing::StartsWith("io: "), testing::HasSubstr(name)));
    write_file(file, whole);
  }
  nlohmann::json json = nlohmann::json::parse(read_file(path + "/training.json"));
  for (const int version : {0, 6}) {
    json["version"] = version;
    write_file(path + "/training.json", json.dump());
    EXPECT_EQ(thrown_by([&] { fixture.load(path); }),
              fmt::format("parse: version {}; 1 to 5 are known (file {}/training.json)", version, path));
  }
  EXPECT_EQ(fixture.everything(), before);
}

TEST(TrainingCheckpoint, ANumberThatNoTrainingCanHaveIsRefusedByItsName) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {});
  Fixture fixture;
  const std::vector<float> before = fixture.everything();
  const std::string path = fixture.save(checkpoints);
  const nlohmann::json good = nlohmann::json::parse(read_file(path + "/training.json"));
  const auto refusal = [&](const char* field, const char* value) {
    nlohmann::json json = good;
    json[field] = nlohmann::json::parse(value);
    write_file(path + "/training.json", json.dump());
    return thrown_by([&] { fixture.load(path); });
  };
  for (const char* field :
       {"step", "updates", "micro_batches", "skipped_in_a_row", "epoch", "good_steps", "replicas", "accumulate"}) {
    for (const char* value : {"-5", "1.5", "1.0", "1e300", "4611686018427387905", "9223372036854775807",
                              "18446744073709551615", "\"7\"", "null", "true"}) {
      EXPECT_EQ(
          refusal(field, value),
          fmt::format("parse: {} is {}; expected a whole number from {} to 4611686018427387904 (file {}/training.json)",
                      field, nlohmann::json::parse(value).dump(), std::string(field) == "accumulate" ? 1 : 0, path));
    }
  }
  for (const char* value : {"0", "-1", "1e-320", "1e-45", "1e300", "\"inf\"", "null"}) {
    EXPECT_THAT(refusal("loss_scale", value), testing::StartsWith("parse: loss_scale is ")) << value;
  }
  for (const char* value : {"-1", "0.5"}) {
    EXPECT_THAT(refusal("seed", value), testing::StartsWith("parse: seed is ")) << value;
  }
  EXPECT_THAT(refusal("version", "2.5"), testing::StartsWith("parse: version is 2.5; expected a whole number"));
  EXPECT_EQ(refusal("loss_scale", "0.25"), "nothing thrown");
  EXPECT_EQ(refusal("accumulate", "0").substr(0, 23), "parse: accumulate is 0;");
  EXPECT_EQ(fixture.everything(), before);
}

TEST(TrainingCheckpoint, OneOfVersion4DoesNotDescribeItsModel) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {});
  Fixture fixture;
  const std::string path = fixture.save(checkpoints);
  EXPECT_EQ(read_progress(path).model, kProgress.model);
  nlohmann::json json = nlohmann::json::parse(read_file(path + "/training.json"));
  json.erase("model");
  write_file(path + "/training.json", json.dump());
  EXPECT_THAT(thrown_by([&] { fixture.load(path); }), testing::HasSubstr("model")) << "version 5 needs it";
  json["version"] = 4;
  write_file(path + "/training.json", json.dump());
  EXPECT_EQ(fixture.load(path).model, "");
  EXPECT_EQ(fixture.load(path).replicas, kProgress.replicas);
}

TEST(TrainingCheckpoint, OneOfVersion2HasNeitherLossScaleNorStatesOfCallbacks) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {});
  Fixture fixture;
  const std::string path = fixture.save(checkpoints);
  nlohmann::json json = nlohmann::json::parse(read_file(path + "/training.json"));
  for (const char* name :
       {"gradients", "loss_scale", "good_steps", "callbacks", "unreported_more_losses", "unreported_metrics"}) {
    json.erase(name);
  }
  write_file(path + "/training.json", json.dump());
  EXPECT_THAT(thrown_by([&] { fixture.load(path); }), testing::HasSubstr("gradients")) << "version 3 needs it";
  json["version"] = 2;
  write_file(path + "/training.json", json.dump());
  const TrainingProgress progress = fixture.load(path);
  EXPECT_EQ(progress.micro_batches, kProgress.micro_batches);
  EXPECT_EQ(progress.loss_scale.scale, 1);
  EXPECT_TRUE(progress.callbacks.empty());
}

TEST(TrainingCheckpoint, FrozenParametersHaveNoSlots) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {});
  Fixture fixture;
  fixture.state.trainable = {0, 0, 1, 1};
  const std::string path = fixture.save(checkpoints);
  const SafetensorsFile slots(path + "/optimizer.safetensors");
  EXPECT_EQ(slots.find("first.weight.m"), nullptr);
  EXPECT_NE(slots.find("second.weight.m"), nullptr);
  EXPECT_NE(SafetensorsFile(path + "/model.safetensors").find("first.weight"), nullptr);
  Fixture other(500);
  other.state.trainable = {0, 0, 1, 1};
  const std::vector<float> slot_before(other.state.slots[0].span().begin(), other.state.slots[0].span().end());
  other.load(path);
  for (size_t id = 0; id < 4; ++id) {
    const Parameter& parameter = fixture.model.layout().parameters()[id];
    const float* expected = id < 2 ? slot_before.data() : fixture.state.slots[0].data();
    EXPECT_EQ(other.state.slots[0].data()[parameter.offset], expected[parameter.offset]);
    EXPECT_EQ(other.state.weights.data()[parameter.offset], fixture.state.weights.data()[parameter.offset]);
  }
  Fixture all(900);
  EXPECT_THAT(thrown_by([&] { all.load(path); }), testing::HasSubstr("missing: first.weight.m"));
}

TEST(TrainingCheckpoint, OneOfVersion1HasABatchInEachStep) {
  const TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), {});
  Fixture fixture;
  const std::string path = fixture.save(checkpoints);
  nlohmann::json json = nlohmann::json::parse(read_file(path + "/training.json"));
  json["version"] = 2;
  for (const char* name : {"micro_batches", "accumulate", "evaluation_due"}) json.erase(name);
  write_file(path + "/training.json", json.dump());
  EXPECT_THAT(thrown_by([&] { fixture.load(path); }), testing::HasSubstr("micro_batches")) << "version 2 needs it";
  json["version"] = 1;
  write_file(path + "/training.json", json.dump());
  const TrainingProgress progress = fixture.load(path);
  EXPECT_EQ(progress.step, 120);
  EXPECT_EQ(progress.micro_batches, 120);
  EXPECT_EQ(progress.accumulate, 1);
  EXPECT_FALSE(progress.evaluation_due);
  EXPECT_EQ(progress.updates, kProgress.updates);
}

}  // namespace
}  // namespace millrace::training_checkpoint_test
