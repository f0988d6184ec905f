// Lists and removes what writers that were killed have left in a bucket.
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "millrace/command_line/command_line.h"
#include "millrace/command_line/number_options.h"
#include "millrace/formats/elements/bucket_folder.h"
#include "millrace/formats/error.h"
#include "millrace/formats/json/names.h"
#include "millrace/formats/storage/remote/folder_leftovers.h"
#include "millrace/formats/storage/remote/object_url.h"
#include "millrace/formats/storage/remote/remote_storage.h"
#include "millrace/formats/utf8.h"
#include "tools/text_table.h"

namespace millrace {
namespace {

namespace po = boost::program_options;

constexpr const char* kAbout =
    "Lists what writers that were killed have left below a URL of a bucket, where nobody sees it and somebody pays "
    "for\n"
    "it: objects of folders that no COMMIT names, files of elements (cache, snapshot, save) that no description names, "
    "and\n"
    "uploads in parts that nobody completed (S3).\n";

struct Options {
  std::string prefix = {};
  int64_t older_than = 7 * 24 * 60 * 60;
  bool removes = false;
  bool json = false;
};

[[noreturn]] void refuse(const std::string& message) { throw ErrorException(ErrorCode::kInvalidArgument, message); }

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  po::options_description visible("options");
  // clang-format off
  visible.add_options()
      ("older-than", whole_number(options.older_than, {0, limits::kCount}),
       "seconds since it was begun; what a writer is still at looks the same")
      ("remove", "remove it")
      ("json", "one JSON object instead of text");
  // clang-format on
  po::options_description hidden;
  hidden.add_options()("url", po::value(&options.prefix));
  const auto given = parse_command_line(
      argc, argv, {.name = "bucket_leftovers", .about = kAbout, .usage = "s3://BUCKET/FOLDER [options]"}, visible,
      {"url"}, hidden);
  if (!given) return std::nullopt;
  if (options.prefix.empty()) refuse("a URL is missing; see bucket_leftovers --help");
  if (!is_in_bucket(options.prefix)) {
    refuse(fmt::format("'{}' is in no bucket, s3://BUCKET/FOLDER or gs://BUCKET/FOLDER", options.prefix));
  }
  // A folder, and not what else begins with its name. A bucket alone is all that is in it.
  if (!options.prefix.ends_with('/')) options.prefix += '/';
  options.removes = given->contains("remove");
  options.json = given->contains("json");
  return options;
}

int run(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) return 0;
  const std::shared_ptr<RemoteStorage> storage = RemoteStorage::of_process();
  const std::chrono::seconds older_than(options->older_than);
  std::vector<std::string> objects;
  for (const auto& [left, unreadable] :
       {folder_leftovers(options->prefix, older_than), elements_leftovers(options->prefix, older_than)}) {
    objects.insert(objects.end(), left.begin(), left.end());
    for (const std::string& url : unreadable) {
      std::cerr << fmt::format(
          "bucket_leftovers: {} does not say what is whole beside it: nothing there was looked at\n", printable(url));
    }
  }
  std::vector<UnfinishedUpload> uploads;
  if (options->prefix.starts_with("s3://")) uploads = storage->unfinished_uploads(options->prefix, older_than);

  TextTable table({"what", "of"});
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  const auto add = [&](const char* what, const std::string& url) {
    table.add({what, url});
    nlohmann::ordered_json one = {{"what", what}};
    put_name(one, "url", url);
    list.push_back(std::move(one));
  };
  for (const std::string& url : objects) add("object", url);
  for (const UnfinishedUpload& upload : uploads) add("unfinished upload", upload.url);
  if (options->removes) {
    storage->remove(objects);
    for (const UnfinishedUpload& upload : uploads) storage->abort_upload(upload);
  }
  const char* const removed = options->removes ? " removed" : "";
  if (options->json) {
    const nlohmann::ordered_json json = {{"objects", objects.size()},
                                         {"unfinished_uploads", uploads.size()},
                                         {"removed", options->removes},
                                         {"leftovers", std::move(list)}};
    std::cout << json_line(json) << "\n";
  } else {
    std::cout << table.text()
              << fmt::format("{} and {}{}\n", counted(objects.size(), "object"),
                             counted(uploads.size(), "unfinished upload"), removed);
  }
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  return millrace::run_program("bucket_leftovers", [&] { return millrace::run(argc, argv); });
}
