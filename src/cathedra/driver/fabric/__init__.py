"""Devices that are in no node until they are attached to one: over a network, or a fabric of switches.

    from cathedra.driver import Device, FabricDriver, Pool

    class Switch(FabricDriver):
        name = "switch.example.com"

        def pools(self):
            return Pool(name="rack-1", devices=[Device(f"gpu-{i}") for i in range(8)])

        async def attach(self, claim, device, node):
            await self.switch.connect(device.device, node)

        async def detach(self, ref, attachment):
            await self.switch.disconnect(attachment.device, attachment.node)

In the order of a claim's way: `driver` (the class to derive from), `record` (what is attached, kept in the claim),
`conditions` (what the scheduler waits for), `attaching` (claims brought to what their allocations say), `controller`
(one leader of several instances does that, and publishes the pools). KEP-5007; docs/spec/driver-sdk.md §14 and §15.
"""
