"""Devices that belong to no node until they are attached to one, over a network or a fabric of switches.

    from cathedra.driver import Device, FabricDriver, Pool

    class Switch(FabricDriver):
        name = "switch.example.com"

        def pools(self):
            return Pool(name="rack-1", devices=[Device(f"gpu-{i}") for i in range(8)])

        async def attach(self, claim, device, node):
            await self.switch.connect(device.device, node)

        async def detach(self, ref, attachment):
            await self.switch.disconnect(attachment.device, attachment.node)

In the order in which a claim passes through: `driver` (the class to derive from), `conditions` (binding conditions that
the scheduler waits for), `attaching` (attaches and detaches devices as allocations require, and records it in the
claim), `controller` (runs this on the leader, and publishes the pools). KEP-5007; docs/spec/driver-sdk.md §14 and §15.
"""
