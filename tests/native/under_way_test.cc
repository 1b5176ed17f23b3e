// What a group's devices have submitted and what has not completed; and the interfaces of this host.
#include "rdma_engine/engine/under_way.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "rdma_engine/net/interfaces.h"

namespace jaxina {
namespace {

TEST(UnderWay, TheOldestCollectiveOfEachDeviceIsTold) {
  UnderWay under_way;
  under_way.begin(2, 11);
  under_way.begin(2, 12);
  under_way.begin(0, 11);
  under_way.end(0);
  const auto devices = under_way.devices();
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0].index, 0u);
  EXPECT_EQ(devices[0].submitted, 1u);
  EXPECT_FALSE(devices[0].oldest);
  EXPECT_EQ(devices[1].submitted, 2u);
  ASSERT_TRUE(devices[1].oldest);
  EXPECT_EQ(devices[1].oldest->number, 1u);
  EXPECT_EQ(devices[1].oldest->identity, 11u);
  EXPECT_LE(devices[1].oldest->since, now());
  under_way.end(2);
  EXPECT_EQ(under_way.devices()[1].oldest->number, 2u);
}

TEST(Interfaces, LoopbackIsOneOfThem) {
  const auto all = net::interface_addresses();
  const auto loopback =
      std::find_if(all.begin(), all.end(), [](const auto& one) { return one.address == "127.0.0.1"; });
  ASSERT_NE(loopback, all.end());
  EXPECT_TRUE(loopback->loopback && loopback->up);
  EXPECT_EQ(loopback->prefix_length, 8u);
  EXPECT_GE(loopback->mtu, 1500u);
  EXPECT_EQ(net::interface_of("127.0.0.1"), loopback->interface + " (127.0.0.1)");
  EXPECT_EQ(net::interface_of("192.0.2.1"), "192.0.2.1");
}

}  // namespace
}  // namespace jaxina
