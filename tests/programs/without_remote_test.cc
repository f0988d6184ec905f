// What a build without libcurl, OpenSSL or pugixml has in place of object stores: linked without them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"
#include "millrace/formats/storage/remote/routed_storage.h"

namespace millrace::without_remote_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Opened final : public OpenSink {
 public:
  void open_done(OpenResult result) noexcept override { result_ = std::move(result); }
  const OpenResult& result() const { return result_; }

 private:
  OpenResult result_;
};

TEST(WithoutRemote, UrlsAreRefusedAndLocalFilesAreNot) {
  const auto refused = AllOf(HasSubstr("built without object stores"), HasSubstr("s3://bucket/a"));
  InlineExecutor executor;
  RoutedStorage storage(executor);
  const auto opened = std::make_shared<Opened>();
  storage.open("s3://bucket/a", opened);
  EXPECT_EQ(opened->result().file, nullptr);
  EXPECT_THAT(opened->result().error.error.to_string(), refused);
  const auto error_of = [](const auto& function) {
    try {
      function();
    } catch (const ErrorException& exception) {
      return exception.error().to_string();
    }
    return std::string("no error");
  };
  EXPECT_THAT(error_of([] { (void)glob_anywhere("s3://bucket/a*"); }), HasSubstr("built without object stores"));
  EXPECT_THAT(error_of([] { (void)read_whole_anywhere("s3://bucket/a"); }), refused);
  EXPECT_THAT(error_of([] { (void)exists_anywhere("s3://bucket/a"); }), refused);
  EXPECT_THAT(error_of([] { (void)open_output_anywhere("s3://bucket/a"); }), refused);
  EXPECT_THAT(error_of([] { write_anywhere("s3://bucket/a", "bytes"); }), refused);
  EXPECT_FALSE(known_size("s3://bucket/a"));
  EXPECT_EQ(glob_anywhere("/no/such/file*"), std::vector<std::string>());
  EXPECT_FALSE(exists_anywhere("/no/such/file"));
}

}  // namespace
}  // namespace millrace::without_remote_test
