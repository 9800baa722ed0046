"""The access logs of the 1998 World Cup web site: decoder, published facts, generator.

The logs themselves are not part of Faultline. They were contributed to the Internet Traffic
Archive by Martin Arlitt and may be used and redistributed with their notice:
M. Arlitt and T. Jin, "1998 World Cup Web Site Access Logs", August 1998."""
