"""What a pod's claims ask for, in the order in which data flow:

* `requests` – the claims taken apart;
* `problem` – what that means on one node;
* `tables` – which devices pass the tests that nothing in the call can change;
* `asked` – all this once for claims of the same specs;
* `result` – what was found, as an AllocationResult.
"""
