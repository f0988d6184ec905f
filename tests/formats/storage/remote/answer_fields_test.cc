// Fields of answers that say what cannot be, or too much.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/storage/remote/remote_storage.h"
#include "tests/formats/storage/remote/fetch.h"
#include "tests/formats/storage/remote/object_server.h"

namespace millrace::answer_fields_test {
namespace {

using test::ObjectServer;
using test::ServedFault;
using test::ServedRequest;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Kind = ServedFault::Kind;

// What an object comes to whose server gives this answer, from a request on.
std::string error_after(uint64_t number, const ServedFault& fault) {
  ObjectServer server(
      {.fault = [&](const ServedRequest& request) { return request.number < number ? ServedFault() : fault; }});
  server.put("a", test::content_of(200'000));
  RemoteOptions options = test::hasty();
  options.retries.give_up_after = std::chrono::milliseconds(20);
  RemoteStorage storage(options);
  const test::Fetched fetched = test::fetch(storage, server.url("a"));
  return fetched.error ? fetched.error->message : "no error";
}

// Taken for the end of the object, they would be its last bytes.
TEST(AnswerFields, ThatNameBytesWithoutAnyAreAnError) {
  const std::string range = "bytes 0-65535/200000";
  EXPECT_THAT(error_after(0, {.kind = Kind::kStatus, .status = 206, .headers = {{"Content-Range", range}}}),
              AllOf(HasSubstr("status 206 without the bytes that were asked for"), HasSubstr("attempts")));
  const ServedFault later{.kind = Kind::kStatus,
                          .status = 206,
                          .headers = {{"Content-Range", "bytes 65536-65536/200000"}, {"ETag", "\"tag-1\""}}};
  EXPECT_THAT(error_after(1, later), HasSubstr("status 206 without the bytes that were asked for"));
}

TEST(AnswerFields, ThatPutBytesBehindAnEndThatIsFurtherAreAnError) {
  EXPECT_THAT(error_after(0, {.kind = Kind::kStatus, .status = 416, .headers = {{"Content-Range", "bytes */200000"}}}),
              HasSubstr("status 416"));
}

TEST(AnswerFields, AreShortenedInErrors) {
  const std::string text = "\x1b[2J" + std::string(10'000, 'x');
  for (const ServedFault& fault :
       {ServedFault{.kind = Kind::kStatus, .status = 206, .headers = {{"Content-Range", text}}, .text = "a"},
        ServedFault{.kind = Kind::kStatus, .status = 404, .headers = {{"x-amz-request-id", text}}},
        ServedFault{.kind = Kind::kStatus,
        .status = 206,
        .headers = {{"Content-Range", "bytes 65536-65536/200000"}, {"ETag", std::string(10'000, 'x')}},
        .text = "a"}}) {
    const std::string error = error_after(1, fault);
    EXPECT_THAT(error, AllOf(HasSubstr("xxx"), Not(HasSubstr("\x1b"))));
    EXPECT_LE(error.size(), 1000U);
  }
}

// They become parts of requests: fields, and names of hosts.
TEST(AnswerFields, ThatNoRequestMayHaveAreNotTaken) {
  EXPECT_EQ(strong_tag("\"a\nRange: bytes=0-0\""), "") << "of a listing, whose XML has any characters";
  EXPECT_EQ(strong_tag("\"a\x7f\""), "");
  EXPECT_EQ(strong_tag("\"a b\""), "a b");
  EXPECT_TRUE(is_region_name(std::string(63, 'a')));
  EXPECT_FALSE(is_region_name(std::string(64, 'a')));
  HttpHead head;
  head.add_line("HTTP/1.1 200 OK\r\n");
  head.add_line("Last-Modified: \t today\rRange: bytes=0-0\r\n");
  head.add_line("neither");
  EXPECT_EQ(head.status, 200);
  ASSERT_EQ(head.headers.fields().size(), 1U);
  EXPECT_EQ(*head.headers.find("last-modified"), "today Range: bytes=0-0");
  head.add_line("HTTP/1.1 206");
  EXPECT_EQ(head.status, 206);
  EXPECT_TRUE(head.headers.fields().empty());
}

TEST(AnswerFields, WithAPasswordForWhereToGoLeadNowhere) {
  const std::string error = error_after(
      0, {.kind = Kind::kStatus, .status = 302, .headers = {{"Location", "http://user:hidden@127.0.0.1:1/a"}}});
  EXPECT_THAT(error, AllOf(HasSubstr("status 302, which leads nowhere"), Not(HasSubstr("hidden"))));
}

}  // namespace
}  // namespace millrace::answer_fields_test
