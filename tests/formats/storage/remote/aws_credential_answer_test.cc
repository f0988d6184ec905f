#include "millrace/formats/storage/remote/aws_credential_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/error.h"

namespace millrace::aws_credential_answer_test {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using std::chrono::sys_days;
using std::chrono::year;
using testing::HasSubstr;
using testing::Not;

using Read = AwsCredentialAnswer (*)(std::string_view);

std::string refusal(Read read, const std::string& text) {
  try {
    static_cast<void>(read(text));
  } catch (const ErrorException& exception) {
    EXPECT_EQ(exception.error().code, ErrorCode::kParse);
    EXPECT_THAT(exception.error().message, Not(HasSubstr("marked")));
    EXPECT_THAT(exception.error().message, Not(HasSubstr("\n")));
    return exception.error().message;
  }
  return "none";
}

// The values of the sample of the API reference of STS.
TEST(AwsCredentialAnswer, IsReadFromTheXmlOfSts) {
  const AwsCredentialAnswer answer = credentials_of_sts(R"(
<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult>
    <SubjectFromWebIdentityToken>amzn1.account.AF6RHO7KZU5XRVQJGXK6HB56KR2A</SubjectFromWebIdentityToken>
    <Credentials>
      <SessionToken>AQoDYXdzEE0a8ANXXXXXXXXNO1ewxE5TijQyp+IEXAMPLE</SessionToken>
      <SecretAccessKey>wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY</SecretAccessKey>
      <Expiration>2014-10-24T23:00:23Z</Expiration>
      <AccessKeyId>ASgeIAIOSFODNN7EXAMPLE</AccessKeyId>
    </Credentials>
  </AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>)");
  EXPECT_EQ(answer.credentials.access_key_id, "ASgeIAIOSFODNN7EXAMPLE");
  EXPECT_EQ(answer.credentials.secret_access_key, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY");
  EXPECT_EQ(answer.credentials.session_token, "AQoDYXdzEE0a8ANXXXXXXXXNO1ewxE5TijQyp+IEXAMPLE");
  EXPECT_EQ(answer.ends, sys_days(year(2014) / 10 / 24) + hours(23) + seconds(23));
}

// The sample of the guide of EC2, and what a container has: no code.
TEST(AwsCredentialAnswer, IsReadFromTheJsonOfMetadata) {
  const AwsCredentialAnswer answer = credentials_of_metadata(R"({
  "Code" : "Success", "LastUpdated" : "2012-04-26T16:39:16Z", "Type" : "AWS-HMAC",
  "AccessKeyId" : "ASIAIOSFODNN7EXAMPLE", "SecretAccessKey" : "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
  "Token" : "token", "Expiration" : "2017-05-17T15:09:54Z" })");
  EXPECT_EQ(answer.credentials.access_key_id, "ASIAIOSFODNN7EXAMPLE");
  EXPECT_EQ(answer.credentials.secret_access_key, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
  EXPECT_EQ(answer.credentials.session_token, "token");
  EXPECT_EQ(answer.ends, sys_days(year(2017) / 5 / 17) + hours(15) + minutes(9) + seconds(54));
  EXPECT_EQ(credentials_of_metadata(R"({"AccessKeyId": "k", "SecretAccessKey": "s", "Expiration": null})").ends,
            std::nullopt);
}

TEST(AwsCredentialAnswer, IsReadFromTheJsonOfAProcess) {
  const AwsCredentialAnswer answer = credentials_of_process(
      R"({"Version": 1, "AccessKeyId": "k", "SecretAccessKey": "s", "SessionToken": "t", "Token": "no",
          "Expiration": "2019-05-29T00:21:43+01:30"})");
  EXPECT_EQ(answer.credentials.session_token, "t");
  EXPECT_EQ(answer.ends, sys_days(year(2019) / 5 / 28) + hours(22) + minutes(51) + seconds(43));
  EXPECT_EQ(credentials_of_process(R"({"Version": 1, "AccessKeyId": "k", "SecretAccessKey": "s"})").ends, std::nullopt);
  for (const char* version : {"", R"("Version": 2,)", R"("Version": "1",)", R"("Version": 1.0,)"}) {
    EXPECT_EQ(refusal(credentials_of_process,
                      std::string("{") + version + R"("AccessKeyId": "marked", "SecretAccessKey": "marked"})"),
              "Version of the answer is not 1");
  }
}

TEST(AwsCredentialAnswer, RefusesWhatIsNone) {
  const std::string html = "<html><head><title>marked</head><body>Bad Gateway";
  const std::string begin = "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>";
  const std::string end = "</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
  EXPECT_THAT(refusal(credentials_of_sts, html), HasSubstr("the answer is no XML"));
  EXPECT_THAT(refusal(credentials_of_sts, ""), HasSubstr("the answer is no XML"));
  EXPECT_THAT(refusal(credentials_of_sts, begin + "<AccessKeyId>marked</AccessKeyId>"), HasSubstr("no XML"));
  EXPECT_THAT(refusal(credentials_of_sts, "<html>marked</html>"), HasSubstr("has no AssumeRoleWithWebIdentityRes"));
  EXPECT_EQ(refusal(credentials_of_sts, begin + "<AccessKeyId>marked</AccessKeyId>" + end),
            "SecretAccessKey is missing");
  EXPECT_EQ(refusal(credentials_of_sts, begin + "<SecretAccessKey>marked</SecretAccessKey>" + end),
            "AccessKeyId is missing");
  for (const Read read : {credentials_of_metadata, credentials_of_process}) {
    for (const std::string& text :
         {html, std::string(), std::string("[1]"), std::string("{\"AccessKeyId\": \"mar"), std::string(30'000, '[')}) {
      EXPECT_EQ(refusal(read, text), "the answer is no JSON object");
    }
    EXPECT_THAT(refusal(read, std::string(kMostAwsCredentialAnswer + 1, ' ')), HasSubstr("more than 65536 bytes"));
  }
  EXPECT_EQ(refusal(credentials_of_metadata, R"({"AccessKeyId": "marked"})"), "SecretAccessKey is missing");
  EXPECT_EQ(refusal(credentials_of_metadata, R"({"AccessKeyId": 1, "SecretAccessKey": "marked"})"),
            "AccessKeyId of the answer is no text");
  EXPECT_EQ(refusal(credentials_of_metadata, R"({"AccessKeyId": "k", "SecretAccessKey": "marked\r\nX: y"})"),
            "SecretAccessKey has characters that no key has, such as a space");
  EXPECT_EQ(refusal(credentials_of_metadata, R"({"AccessKeyId": "k", "SecretAccessKey": "s", "Expiration": "soon"})"),
            "Expiration of the answer is no time in RFC 3339");
  EXPECT_EQ(refusal(credentials_of_metadata, R"({"Code": "AssumeRoleUnauthorizedAccess", "Message": "marked"})"),
            "the answer has the code AssumeRoleUnauthorizedAccess");
  EXPECT_EQ(refusal(credentials_of_metadata, R"({"Code": "marked text"})"), "the answer has the code of an error");
}

TEST(AwsCredentialAnswer, SaysWhyThereIsNoneWithoutASecret) {
  const auto xml = [](const std::string& code, const std::string& message) {
    return "<ErrorResponse><Error><Code>" + code + "</Code><Message>" + message + "</Message></Error></ErrorResponse>";
  };
  const std::string secret = "eyJhbGciOiJSUzI1NiJ9.marked-token";
  EXPECT_EQ(refusal_of(xml("ExpiredTokenException", "Token expired"), secret), "ExpiredTokenException: Token expired");
  EXPECT_EQ(refusal_of(xml("InvalidIdentityToken", "not " + secret), secret), "InvalidIdentityToken");
  EXPECT_EQ(refusal_of(xml("InvalidIdentityToken", "not eyJhbGciOiJSU..."), secret), "InvalidIdentityToken");
  EXPECT_EQ(refusal_of(xml("Invalid", "not short"), "short"), "Invalid");
  EXPECT_EQ(refusal_of(xml("Invalid", "two\nlines"), secret), "Invalid");
  EXPECT_EQ(refusal_of(xml("Invalid", std::string(301, 'a')), secret), "Invalid");
  EXPECT_EQ(refusal_of(xml("no code", "text"), secret), "");
  EXPECT_EQ(refusal_of(R"({"code": "AccessDenied", "message": "no"})", secret), "AccessDenied: no");
  EXPECT_EQ(refusal_of(R"({"Code": "AccessDenied", "Message": 1})", secret), "AccessDenied");
  EXPECT_EQ(refusal_of("<html>marked</html>", secret), "");
  EXPECT_EQ(refusal_of("", secret), "");
}

}  // namespace
}  // namespace millrace::aws_credential_answer_test
