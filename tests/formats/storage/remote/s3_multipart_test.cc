#include "millrace/formats/storage/remote/s3_multipart.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"

namespace millrace::s3_multipart_test {
namespace {

using std::chrono::hours;
using std::chrono::sys_days;
using std::chrono::year;
using testing::HasSubstr;

std::string listed(const std::string& inside) {
  return "<?xml version=\"1.0\"?><ListMultipartUploadsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" +
         inside + "</ListMultipartUploadsResult>";
}

std::string refusal_of(const std::string& body) {
  try {
    (void)parse_s3_uploads("bucket", body);
  } catch (const ErrorException& exception) {
    EXPECT_EQ(exception.error().code, ErrorCode::kParse);
    return exception.error().message;
  }
  return "none";
}

TEST(S3Multipart, ReadsTheNumberOfAnUpload) {
  EXPECT_EQ(parse_s3_upload_id("<InitiateMultipartUpload><UploadId>7</UploadId></InitiateMultipartUpload>"), "7");
  EXPECT_EQ(parse_s3_upload_id("<Error><UploadId>7</UploadId></Error>"), "");
  EXPECT_EQ(parse_s3_upload_id("<?xml version=\"1.0\"?>\n<InitiateMultipartUploadResult xmlns=\"a\"><Key>k</Key>"
                               "<UploadId>a&amp;b+c==</UploadId></InitiateMultipartUploadResult>"),
            "a&b+c==");
  EXPECT_EQ(parse_s3_upload_id("<Error><UploadId>a</UploadId></Error>"), "");
  EXPECT_EQ(parse_s3_upload_id("no XML"), "");
}

TEST(S3Multipart, KnowsASuccessFromAnErrorBehindBlanks) {
  const std::string blanks(100'000, ' ');
  EXPECT_TRUE(is_s3_completed("<CompleteMultipartUploadResult/>"));
  EXPECT_TRUE(is_s3_completed("\n" + blanks + "<?xml version=\"1.0\"?>\n<CompleteMultipartUploadResult/>"));
  EXPECT_TRUE(is_s3_completed("<?xml version=\"1.0\"?>" + blanks + "<CompleteMultipartUploadResult/>"));
  EXPECT_FALSE(is_s3_completed(blanks + "<Error><Code>InternalError</Code></Error>"));
  EXPECT_FALSE(is_s3_completed(blanks));
  EXPECT_FALSE(is_s3_completed(""));
}

TEST(S3Multipart, NamesPartsAndTheirTags) {
  EXPECT_EQ(s3_complete_body({"\"a\"", "b<&"}),
            "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
            "<Part><PartNumber>1</PartNumber><ETag>\"a\"</ETag></Part>"
            "<Part><PartNumber>2</PartNumber><ETag>b&lt;&amp;</ETag></Part></CompleteMultipartUpload>");
}

// As `printf hello | md5sum` and of both, in binary, again.
TEST(S3Multipart, KnowsTheTagOfAnObjectOfParts) {
  const std::string hello = "\"5d41402abc4b2a76b9719d911017c592\"";
  EXPECT_EQ(s3_tag_of_parts({hello}), "62109206880d38a4010a98e11243924a-1");
  EXPECT_EQ(s3_tag_of_parts({hello, hello}), "616b22817b80eed9f65c3aa38cd29054-2");
  EXPECT_EQ(s3_tag_of_parts({hello, "\"another kind of tag\""}), "");
}

TEST(S3Multipart, ListsUploadsByPages) {
  EXPECT_EQ(s3_list_uploads_query("", ""), "uploads&encoding-type=url&max-uploads=1000");
  const S3UploadPage page = parse_s3_uploads(
      "bucket",
      listed("<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><NextKeyMarker>a+b%2B</NextKeyMarker>"
             "<NextUploadIdMarker>i/d</NextUploadIdMarker><Upload><Key>a+b%2B</Key><UploadId>i/d</UploadId>"
             "<Initiated>2026-11-28T13:30:00.123Z</Initiated></Upload>"));
  ASSERT_EQ(page.uploads.size(), 1U);
  EXPECT_EQ(page.uploads[0].url, "s3://bucket/a b+");
  EXPECT_EQ(page.uploads[0].id, "i/d");
  EXPECT_EQ(page.uploads[0].begun, sys_days(year(2026) / 11 / 28) + hours(13) + std::chrono::minutes(30));
  EXPECT_EQ(s3_list_uploads_query("a b", page.next),
            "uploads&encoding-type=url&max-uploads=1000&prefix=a%20b&key-marker=a%20b%2B&upload-id-marker=i%2Fd");
  EXPECT_EQ(parse_s3_uploads("bucket", listed("")).next, "");
}

TEST(S3Multipart, RefusesWhatIsNoListOfUploads) {
  EXPECT_THAT(refusal_of("<Error/>"), HasSubstr("there is no ListMultipartUploadsResult"));
  EXPECT_THAT(refusal_of(listed("<IsTruncated>true</IsTruncated>")), HasSubstr("does not say where"));
  EXPECT_THAT(refusal_of(listed("<Upload><Key>a</Key></Upload>")), HasSubstr("has no key or number"));
  for (const std::string time : {"", "yesterday", "2026-13-28T00:00:00Z", "2026-11-28 00:00:00", "2026-11-28T00:00",
                                 "9999-11-28T00:00:00Z", "2026-11-28T-1:00:00Z"}) {
    const std::string upload = "<Upload><Key>a</Key><UploadId>i</UploadId><Initiated>" + time + "</Initiated></Upload>";
    EXPECT_THAT(refusal_of(listed(upload)), HasSubstr("'a' began at '" + time + "'"));
  }
}

}  // namespace
}  // namespace millrace::s3_multipart_test
