// Whole programs that write into a bucket with marked credentials, against a store that fails and repeats what it was
// sent: no mark is in what they print, nor in what they leave, there and on the disk.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/examples/mlm/small_mlm_run.h"
#include "tests/served_programs/marked_stores.h"
#include "tests/served_programs/searched_runs.h"
#include "tests/support/child_process.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::written_secrets_test {
namespace {

using test::ChildResult;
using test::files_below;
using testing::AllOf;
using testing::HasSubstr;

template <typename Store>
class WrittenSecrets : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(runs_.out("tmp"));
    runs_.set("TMPDIR", runs_.out("tmp"));
    store_.give_keys();
    store_.put(".there", "");  // else there is no bucket
    preparation_ = test::small_mlm_preparation(runs_.home(), 100, {"--records-per-shard", "20"});
    run_well(preparation_);
  }

  std::vector<std::string> preparation(const std::string& key) const {
    return test::with_options(preparation_, {"--out", Store::url(key)});
  }
  // With the local shards.
  std::vector<std::string> training(const std::string& key, const std::vector<std::string>& more = {}) const {
    return test::with_options(
        test::small_mlm_training(Store::url(key), runs_.home(), {"--steps", "10", "--checkpoint-every", "4"}), more);
  }
  std::vector<std::string> leftovers() const { return {test::kBucketLeftovers, Store::url(""), "--older-than", "0"}; }

  void run_well(const std::vector<std::string>& arguments) {
    const ChildResult result = runs_.run(arguments);
    EXPECT_EQ(result.exit_code, 0) << fmt::format("{}: ", fmt::join(arguments, " ")) << result.err;
  }
  void expect_error(const std::vector<std::string>& arguments, const testing::Matcher<std::string>& message) {
    const ChildResult result = runs_.run(arguments);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.err, message);
  }
  // While what it writes is on the way.
  void kill(const std::vector<std::string>& arguments, const std::atomic<int>& num_unanswered) {
    const ChildResult killed = runs_.run_until(arguments, [&num_unanswered] { return num_unanswered > 0; });
    EXPECT_EQ(killed.signal, SIGKILL) << killed.err << killed.out;
  }

  // All that is there now. Files in TMPDIR and objects must have these in their names.
  std::string found(std::initializer_list<const char*> files, std::initializer_list<const char*> objects) {
    store_.mark_requests();
    const std::map<std::string, std::string> there = store_.objects();
    for (const auto& [key, content] : there) runs_.show("object " + key, content);
    expect_named(files_below(runs_.out("tmp")), files);
    expect_named(there, objects);
    return runs_.found();
  }

  static void expect_named(const std::map<std::string, std::string>& there, std::initializer_list<const char*> parts) {
    for (const std::string_view part : parts) {
      EXPECT_TRUE(std::ranges::any_of(there, [&](const auto& file) {
        return file.first.find(part) != std::string::npos && !file.second.empty();
      })) << part;
    }
  }

  typename Store::Fault fault_of(const typename Store::Request& request) {
    const std::string& target = Store::target(request);
    const auto is_for = [&target](std::string_view text) { return target.find(text) != std::string::npos; };
    const bool writes = request.method == "PUT" || request.method == "POST";
    if (writes && (is_for(".tfrecord") || is_for("model.safetensors"))) {
      if (refuses_) return Store::echo(403, request);
      if (is_silent_) {
        ++(is_for(".tfrecord") ? shards_unanswered_ : models_unanswered_);
        return Store::silence();
      }
    }
    if (lists_nothing_ && (is_for("list-type=") || is_for("maxResults="))) return Store::echo(200, request);
    return request.number % 5 == 1 ? Store::echo(503, request) : typename Store::Fault();
  }

  std::atomic<bool> refuses_ = false;        // shards and models
  std::atomic<bool> is_silent_ = false;      // the same
  std::atomic<bool> lists_nothing_ = false;  // but repeats what it was sent
  std::atomic<int> shards_unanswered_ = 0;
  std::atomic<int> models_unanswered_ = 0;
  std::vector<std::string> preparation_;
  test::SearchedRuns runs_;
  Store store_{runs_, [this](const typename Store::Request& request) { return fault_of(request); }};
};

using Stores = testing::Types<test::MarkedS3, test::MarkedGoogle>;
struct StoreName {
  template <typename Store>
  static std::string GetName(int /*index*/) {
    return Store::url("").substr(0, 2);
  }
};
TYPED_TEST_SUITE(WrittenSecrets, Stores, StoreName);

TYPED_TEST(WrittenSecrets, AreInNothingThatProgramsLeave) {
  this->is_silent_ = true;
  this->kill(this->preparation("killed/shards"), this->shards_unanswered_);
  this->kill(this->training("run"), this->models_unanswered_);
  EXPECT_EQ(this->found({".tfrecord", "/log.jsonl", "/tensorboard/", "/checkpoints/", "/sent/"}, {"run/LOCK"}), "");
  this->is_silent_ = false;

  this->run_well(this->preparation("set/shards"));
  this->run_well(this->training("run", {"--shards", TypeParam::url("set/shards"), "--cache-dir",
                                        this->runs_.out("cache"), "--trace", this->runs_.out("trace.json")}));
  this->store_.put("run/20240101T000000Z-01234567/left", "of one that was killed");
  this->run_well(this->leftovers());
  this->run_well(test::with_options(this->leftovers(), {"--json"}));
  this->expect_named(files_below(this->runs_.out()), {"trace.json", "cache/", "/object.json", "/00000000"});
  EXPECT_EQ(this->found({}, {"set/shards/COMMIT", ".tfrecord", "/statistics.json", "run/COMMIT", "/log.jsonl",
                             "/tensorboard/", "/checkpoints/", "/model/model.safetensors"}),
            "");

  // Nor would one be overlooked.
  this->store_.put("run/planted", "a SeCrEtKey of a run");
  test::write_file(this->runs_.out("tmp/planted"), "another SeCrEtKey");
  EXPECT_THAT(this->found({}, {}), AllOf(HasSubstr(" in object run/planted\n"), HasSubstr(" in tmp/planted\n")));
}

TYPED_TEST(WrittenSecrets, AreInNothingThatIsSaidOfAStoreThatRefuses) {
  this->refuses_ = true;
  this->expect_error(this->preparation("set/shards"), AllOf(HasSubstr(".tfrecord"), HasSubstr("status 403")));
  this->expect_error(this->training("run"), AllOf(HasSubstr("status 403"), HasSubstr("; what it lacks is in ")));
  this->lists_nothing_ = true;
  this->expect_error(this->leftovers(), HasSubstr("cannot list it: the answer is no listing: "));
  EXPECT_EQ(this->found({"-unsent-", "/log.jsonl", "/tensorboard/", "/model/model.safetensors"}, {}), "");
}

}  // namespace
}  // namespace millrace::written_secrets_test
